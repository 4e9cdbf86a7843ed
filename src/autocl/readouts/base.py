"""Readout: a classifier over features with a state, one protocol for all.

Shape legend: B = streams, T = demos, Q = queries, F = features, N = classes.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autocl.config import Count, Natural, OneOf, Positive, Range, check
from autocl.errors import InputError
from autocl.names import Registry

State = dict[str, Tensor]
"""State of a read-out: named tensors, batch first."""


class Readout(nn.Module):
    """A pure learner over features. Its parameters, if it has any, are meta-learned; its state is learned.

    `learn(a + b)` equals `learn(a)` followed by `learn(b)` unless told to go over its demos several times.
    Nothing is changed in place: gradients flow through the state into features and parameters, which is how
    encoders are meta-trained under a read-out.
    """

    per_class: ClassVar[dict[str, int]]
    """The axis along which a tensor of the state lists classes. The others are sums over all demos, or …"""
    per_demo: ClassVar[dict[str, int]] = {}
    """… list demos along this axis."""
    grows: ClassVar[bool] = True
    """Whether new classes can be added to a state at any time."""
    merges: ClassVar[bool] = True
    """Whether states that learned different classes can be made one."""
    any_length: bool = False
    """Whether it was meta-learned for features of any length, not only for those of its encoder."""
    steps_per_demo: int = 0
    """Gradient steps that one demo costs."""
    test_every: int = 1
    """One demo in so many is predicted before it is learned (see `Learner`)."""

    def __init__(self) -> None:
        super().__init__()
        # Knows where the module is, and its precision, also when there are no parameters.
        self.register_buffer("_like", torch.zeros(()), persistent=False)

    def independent(self, f: Tensor) -> bool:
        """Whether rows of f [B, T, F] mean the same, bit for bit, beside any others (see `Learner`)."""
        return False

    @abstractmethod
    def initial_state(self, batch: int, n_classes: int) -> State:
        """State before the first demo, for a batch of streams."""

    @abstractmethod
    def learn(self, f: Tensor, y: Tensor, state: State) -> State:
        """Demos with features f [B, T, F] and labels y [B, T] -> what is known after them."""

    @abstractmethod
    def read(self, f: Tensor, state: State) -> Tensor:
        """Scores [B, Q, N] of queries f [B, Q, F]; what they say of classes without demos means nothing."""

    def novelty(self, f: Tensor, state: State) -> Tensor:
        """Novelty of queries f [B, Q, F] against all demos, [B, Q] in 0…1; here, how unsure the answer is."""
        return 1 - self.read(f, state).softmax(-1).amax(-1)

    def forget(self, state: State, label: int) -> State:
        """The state as if no demo of a class had been shown; the classes behind it move up by one."""
        if shared := sorted(set(state) - set(self.per_class)):
            raise InputError(
                f"a class cannot be forgotten: {', '.join(shared)} of this read-out are sums over all classes"
            )
        return {name: _without(t, self.per_class[name], label) for name, t in state.items()}

    def renewed(self, state: State) -> State:
        """A state from a file of any version, as this one keeps it; whether it fits is not its matter."""
        return state

    def counts(self, state: State) -> Tensor | None:
        """Demos of each class so far, [B, N]; None where the state does not tell."""
        return state["count"]

    def n_classes(self, state: State) -> int:
        """N of a state."""
        name, axis = next(iter(self.per_class.items()))
        return state[name].shape[axis]

    def grow(self, state: State, n_classes: int) -> State:
        """The state with room for more classes, of which nothing is known yet."""
        new = n_classes - self.n_classes(state)
        return {
            name: torch.cat([t, t.new_zeros(_resized(t, axis, new))], axis) if axis is not None else t
            for name, t in state.items()
            for axis in [self.per_class.get(name)]
        }

    def merge(self, states: Sequence[State]) -> State:
        """One state for the classes of all states, one after the other, as if it had learned all demos."""
        merged = {}
        for name in states[0]:
            parts = [state[name] for state in states]
            axis = self.per_class.get(name, self.per_demo.get(name))
            merged[name] = torch.stack(parts).sum(0) if axis is None else torch.cat(parts, axis)
        return merged

    def zeros(self, *shape: int) -> Tensor:
        """Zeros where the module is."""
        like = self._like
        assert isinstance(like, Tensor)
        return like.new_zeros(shape)


def _without(t: Tensor, axis: int, row: int) -> Tensor:
    return torch.cat([t.narrow(axis, 0, row), t.narrow(axis, row + 1, t.shape[axis] - row - 1)], axis)


def _resized(t: Tensor, axis: int, size: int) -> list[int]:
    return [size if i == axis else n for i, n in enumerate(t.shape)]


class ClassSums(Readout):
    """Read-outs that start from the number of demos of each class and the sum of their features.

    Args:
        n_features: F.
    """

    per_class = {"count": 1, "sum": 1}  # noqa: RUF012 (a ClassVar of Readout)

    def __init__(self, n_features: int) -> None:
        super().__init__()
        self.n_features = n_features

    def initial_state(self, batch: int, n_classes: int) -> State:
        """Zeros: count [B, N], sum [B, N, F]."""
        return {
            "count": self.zeros(batch, n_classes),
            "sum": self.zeros(batch, n_classes, self.n_features),
        }

    def learn(self, f: Tensor, y: Tensor, state: State) -> State:
        """Add the demos."""
        member = F.one_hot(y, state["count"].shape[1]).to(f.dtype)
        return {"count": state["count"] + member.sum(1), "sum": state["sum"] + member.mT @ f}


def means_of(state: State) -> Tensor:
    """Class means [B, N, F]; zero for classes without demos."""
    mean: Tensor = state["sum"] / state["count"].clamp(min=1)[..., None]
    return mean


Builder = Callable[["ReadoutConfig", int, int], Readout]
READOUTS: Registry[Builder] = Registry("read-out", "autocl.readouts")
"""By name, functions of (configuration, F, N) that build a read-out."""


@dataclass(frozen=True, kw_only=True)
class ReadoutConfig:
    """Kind and settings of a read-out; each setting names the read-outs that have it."""

    kind: Annotated[str, OneOf(READOUTS.names)] = "means"
    keys: Natural = 0
    """ridge, kernel: size of the keys; the state grows with its square. ridge: 0 takes features themselves,
    scaled to unit length."""
    hidden: Natural = 0
    """ridge: units of the network that makes the keys, 0: linear. online: units of the head, 0: linear."""
    penalty: Positive = 1.0
    """ridge, kernel: λ at the start of meta-training, in demos."""
    shrinkage: Annotated[float, Range(0, 1, open_low=True)] = 0.1
    """lda: share of a multiple of the identity in the covariance; 1 is nearest class mean. Hayes & Kanan use
    1e-4 with thousands of demos; a few dozen of 128 features do not determine a covariance. On features of
    unit length half-way, 0.5, is the best constant-size statistic in most class-incremental cells."""
    shapes: Natural = 0
    """universal: directions in which a class may have a width of its own once a stream is long."""
    neighbours: Count = 5
    """knn: how many vote."""
    rate: Positive = 0.03
    """online: step size."""
    iterations: Count = 1
    """online: passes over the demos of one call to `learn`, which is a task; meta-training makes one."""

    def __post_init__(self) -> None:
        check(self)


def build_readout(config: ReadoutConfig, *, n_features: int, n_classes: int) -> Readout:
    """A read-out with fresh parameters.

    Args:
        config: which one.
        n_features: F.
        n_classes: N, for those whose parameters depend on it.

    Example:
        >>> readout = build_readout(ReadoutConfig(kind="means"), n_features=8, n_classes=2)
        >>> readout.initial_state(1, 2)["sum"].shape
        torch.Size([1, 2, 8])
    """
    return READOUTS.get(config.kind)(config, n_features, n_classes)
