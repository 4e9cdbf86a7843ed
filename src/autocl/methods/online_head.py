"""OnlineHead: a small network that takes one gradient step for each demo, from a meta-learned start.

Shape legend: B = streams or runs, T = demos, Q = queries, F = features, H = hidden units, N = outputs.
"""

from torch import Tensor, nn
from torch.nn import functional as F

from autocl.errors import InputError
from autocl.methods.readout import Readout, Stats


class OnlineHead(Readout):
    """The part of OML and ANML that learns: stats are its fast weights, one set for each stream.

    A step is written out with the gradient of the cross-entropy in closed form, all streams at once. Because
    that is ordinary differentiable code, backward through it is the exact second-order meta-gradient.

    Args:
        n_features: F.
        n_outputs: N; streams with fewer outputs use the first ones.
        hidden: H, or 0 for a linear head.
        rate: step size in meta-training and, unless changed, at meta-test.
    """

    def __init__(self, n_features: int, n_outputs: int, *, hidden: int, rate: float) -> None:
        super().__init__()
        self.rate = rate
        self.iterations = 1
        """Passes over the demos of one call to `learn`, which is a task."""
        self.first = nn.Linear(n_features, hidden) if hidden else None
        self.last = nn.Linear(hidden or n_features, n_outputs)

    @property
    def steps_per_demo(self) -> int:  # type: ignore[override]
        """As many as there are iterations."""
        return self.iterations

    def initial(self, batch: int, n_features: int, n_outputs: int) -> Stats:
        """The meta-learned start for every stream; transposed weights [B, in, out], biases [B, 1, out]."""
        if n_outputs > self.last.out_features:
            raise InputError(
                f"the stream needs {n_outputs} outputs, this head was meta-trained with "
                f"{self.last.out_features}: meta-train one with more"
            )
        stats = {
            "last.weight": self.last.weight[:n_outputs].T.expand(batch, -1, -1),
            "last.bias": self.last.bias[:n_outputs].expand(batch, 1, -1),
        }
        if self.first is not None:
            stats["first.weight"] = self.first.weight.T.expand(batch, -1, -1)
            stats["first.bias"] = self.first.bias.expand(batch, 1, -1)
        return stats

    def learn(self, stats: Stats, f: Tensor, y: Tensor) -> Stats:
        """One step of gradient descent for each demo, in the order given, and over again if so set."""
        target = F.one_hot(y, stats["last.bias"].shape[-1]).to(f.dtype)
        for _ in range(self.iterations):
            for t in range(f.shape[1]):
                stats = self._step(stats, f[:, t : t + 1], target[:, t : t + 1])
        return stats

    def scores(self, stats: Stats, f: Tensor) -> Tensor:
        """Logits [B, Q, N]."""
        logits: Tensor = self._hidden(stats, f) @ stats["last.weight"] + stats["last.bias"]
        return logits

    def _hidden(self, stats: Stats, f: Tensor) -> Tensor:
        return f if self.first is None else F.relu(f @ stats["first.weight"] + stats["first.bias"])

    def _step(self, stats: Stats, f: Tensor, target: Tensor) -> Stats:
        """One demo of each stream: f [B, 1, F], target [B, 1, N]."""
        h = self._hidden(stats, f)
        delta = (h @ stats["last.weight"] + stats["last.bias"]).softmax(-1) - target
        new = {
            "last.weight": stats["last.weight"] - self.rate * (h.mT @ delta),
            "last.bias": stats["last.bias"] - self.rate * delta,
        }
        if self.first is not None:
            back = (delta @ stats["last.weight"].mT) * (h > 0)
            new["first.weight"] = stats["first.weight"] - self.rate * (f.mT @ back)
            new["first.bias"] = stats["first.bias"] - self.rate * back
        return new
