"""OnlineHead: a small network that takes one gradient step for each demo, from a meta-learned start.

Shape legend: B = streams or runs, T = demos, Q = queries, F = features, H = hidden units, N = outputs.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autocl.errors import InputError
from autocl.methods.readout import Readout, Stats


class OnlineHead(Readout):
    """The part of OML and ANML that learns: stats are its fast weights, one set for each stream.

    A step is written out with the gradient of the cross-entropy in closed form, all streams at once. Because
    that is ordinary differentiable code, backward through it is the exact second-order meta-gradient.

    The steps of the wide first layer are not carried out one by one. Each takes rate f_s b_sᵀ off its
    weights, so demo t meets f_t W - rate Σ_{s<t} (f_t · f_s) b_s: only the b_s are kept until all demos are
    learned, and meta-training does not store T matrices of F × H for every stream.

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
        f, y = f.repeat(1, self.iterations, 1), y.repeat(1, self.iterations)
        target = F.one_hot(y, stats["last.bias"].shape[-1]).to(f.dtype)
        if self.first is None:
            for t in range(f.shape[1]):
                stats = self._step(stats, f[:, t : t + 1], target[:, t : t + 1])[0]
            return stats
        before = f @ stats["first.weight"] + stats["first.bias"]
        alike = f @ f.mT + 1  # 1: the bias is a weight whose input is always 1
        backs: list[Tensor] = []
        for t in range(f.shape[1]):
            x = before[:, t : t + 1]
            if backs:
                x = x - self.rate * (alike[:, t : t + 1, :t] @ torch.cat(backs, dim=1))
            h = F.relu(x)
            moved, delta = self._step(stats, h, target[:, t : t + 1])
            backs.append((delta @ stats["last.weight"].mT) * (h > 0))
            stats = moved
        steps = self.rate * torch.cat(backs, dim=1)
        return {
            **stats,
            "first.weight": stats["first.weight"] - f.mT @ steps,
            "first.bias": stats["first.bias"] - steps.sum(1, keepdim=True),
        }

    def scores(self, stats: Stats, f: Tensor) -> Tensor:
        """Logits [B, Q, N]."""
        if self.first is not None:
            f = F.relu(f @ stats["first.weight"] + stats["first.bias"])
        logits: Tensor = f @ stats["last.weight"] + stats["last.bias"]
        return logits

    def _step(self, stats: Stats, h: Tensor, target: Tensor) -> tuple[Stats, Tensor]:
        """One demo of each stream through the last layer: h [B, 1, H], target [B, 1, N].

        Returns:
            The stats with a new last layer, and the derivative [B, 1, N] of the loss by the logits.
        """
        delta = (h @ stats["last.weight"] + stats["last.bias"]).softmax(-1) - target
        new = {
            "last.weight": stats["last.weight"] - self.rate * (h.mT @ delta),
            "last.bias": stats["last.bias"] - self.rate * delta,
        }
        return {**stats, **new}, delta
