"""OnlineHead: a small network that takes one gradient step for each demo, from a meta-learned start.

Shape legend: B = streams, T = demos, Q = queries, F = features, H = hidden units, N = classes.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autocl.errors import InputError
from autocl.readouts.base import READOUTS, Readout, ReadoutConfig, State


class OnlineHead(Readout):
    """The part of OML and ANML that learns; its state are its fast weights, one set for each stream.

    A step is written out with the gradient of the cross-entropy in closed form, all streams at once. Because
    that is ordinary differentiable code, backward through it is the exact second-order meta-gradient.

    The steps of the wide first layer are not carried out one by one. Each takes rate f_s b_sᵀ off its
    weights, so demo t meets f_t W - rate Σ_{s<t} (f_t · f_s) b_s: only the b_s are kept until all demos are
    learned, and meta-training does not store T matrices of F × H for every stream.

    Args:
        n_features: F.
        n_classes: N; states of fewer classes use the first ones.
        hidden: H, or 0 for a linear head.
        rate: step size.
        iterations: passes over the demos of one call to `learn`, which is a task.
    """

    per_class = {"last.weight": 2, "last.bias": 2}  # noqa: RUF012 (a ClassVar of Readout)
    grows = False
    merges = False

    def __init__(
        self, n_features: int, n_classes: int, *, hidden: int, rate: float, iterations: int = 1
    ) -> None:
        super().__init__()
        self.rate = rate
        self.steps_per_demo = self.iterations = iterations
        self.first = nn.Linear(n_features, hidden) if hidden else None
        self.last = nn.Linear(hidden or n_features, n_classes)

    def counts(self, state: State) -> Tensor | None:
        """Its weights do not tell."""
        return None

    def initial_state(self, batch: int, n_classes: int) -> State:
        """The meta-learned start for every stream; transposed weights [B, in, out], biases [B, 1, out]."""
        if n_classes > self.last.out_features:
            raise InputError(
                f"{n_classes} classes are too many: this head was meta-trained with "
                f"{self.last.out_features}; meta-train one with more"
            )
        state = {
            "last.weight": self.last.weight[:n_classes].T.expand(batch, -1, -1),
            "last.bias": self.last.bias[:n_classes].expand(batch, 1, -1),
        }
        if self.first is not None:
            state["first.weight"] = self.first.weight.T.expand(batch, -1, -1)
            state["first.bias"] = self.first.bias.expand(batch, 1, -1)
        return state

    def learn(self, f: Tensor, y: Tensor, state: State) -> State:
        """One step of gradient descent for each demo, in the order given, and over again if so set."""
        f, y = f.repeat(1, self.iterations, 1), y.repeat(1, self.iterations)
        target = F.one_hot(y, state["last.bias"].shape[-1]).to(f.dtype)
        if self.first is None:
            for t in range(f.shape[1]):
                state = self._step(state, f[:, t : t + 1], target[:, t : t + 1])[0]
            return state
        before = f @ state["first.weight"] + state["first.bias"]
        alike = f @ f.mT + 1  # 1: the bias is a weight whose input is always 1
        backs: list[Tensor] = []
        for t in range(f.shape[1]):
            x = before[:, t : t + 1]
            if backs:
                x = x - self.rate * (alike[:, t : t + 1, :t] @ torch.cat(backs, dim=1))
            h = F.relu(x)
            moved, delta = self._step(state, h, target[:, t : t + 1])
            backs.append((delta @ state["last.weight"].mT) * (h > 0))
            state = moved
        steps = self.rate * torch.cat(backs, dim=1)
        return {
            **state,
            "first.weight": state["first.weight"] - f.mT @ steps,
            "first.bias": state["first.bias"] - steps.sum(1, keepdim=True),
        }

    def read(self, f: Tensor, state: State) -> Tensor:
        """Logits [B, Q, N]."""
        if self.first is not None:
            f = F.relu(f @ state["first.weight"] + state["first.bias"])
        logits: Tensor = f @ state["last.weight"] + state["last.bias"]
        return logits

    def _step(self, state: State, h: Tensor, target: Tensor) -> tuple[State, Tensor]:
        """One demo of each stream through the last layer: h [B, 1, H], target [B, 1, N].

        Returns:
            The state with a new last layer, and the derivative [B, 1, N] of the loss by the logits.
        """
        delta = (h @ state["last.weight"] + state["last.bias"]).softmax(-1) - target
        new = {
            "last.weight": state["last.weight"] - self.rate * (h.mT @ delta),
            "last.bias": state["last.bias"] - self.rate * delta,
        }
        return {**state, **new}, delta


@READOUTS.register("online")
def _online(config: ReadoutConfig, n_features: int, n_classes: int) -> OnlineHead:
    return OnlineHead(
        n_features, n_classes, hidden=config.hidden, rate=config.rate, iterations=config.iterations
    )
