"""Interface of a layer: a pure function of (input, state), with a way to answer queries.

Shape legend: B = streams, T = demos of a segment, Q = queries, C = width in, C' = width out.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, Protocol

from torch import Tensor, nn

from autocl.names import Registry
from autocl.ops.dropout import dropout, dropout_add, relu_dropout
from autocl.ops.linear import linear

State = dict[str, Tensor]
"""A layer's part of the learner's state: named tensors, batch first."""


class Layer(Protocol):
    """Anything that can stand in a learner's stack."""

    def initial_state(self, batch: int) -> State:
        """Return the state before the first demo."""

    def __call__(self, h: Tensor, state: State) -> tuple[Tensor, State]:
        """Run a segment of demos h [B, T, C] -> [B, T, C'] and return the state after it, as new tensors."""

    def read(self, h: Tensor, state: State) -> Tensor:
        """Answer queries h [B, Q, C] -> [B, Q, C'], each a segment of length one whose state is dropped."""


class Stateless(nn.Module, ABC):
    """A layer in which nothing depends on the past: demos and queries are the same to it."""

    def initial_state(self, batch: int) -> State:
        """The empty state."""
        return {}

    def forward(self, h: Tensor, state: State) -> tuple[Tensor, State]:
        """See `read`."""
        return self.read(h, state), state

    @abstractmethod
    def read(self, h: Tensor, state: State) -> Tensor:
        """What becomes of each demo or query by itself."""


class Dropout(nn.Dropout):
    """`torch.nn.Dropout` by `autocl.ops.dropout`: on the CPU as fast as a product.

    Example:
        >>> import torch
        >>> Dropout(0.1).eval()(torch.ones(2))
        tensor([1., 1.])
    """

    def forward(self, input: Tensor) -> Tensor:
        """Drop while training; else nothing happens."""
        return dropout(input, self._rate)

    def add(self, h: Tensor, x: Tensor) -> Tensor:
        """h + self(x), in one pass."""
        return dropout_add(h, x, self._rate)

    def relu(self, x: Tensor) -> Tensor:
        """self(relu(x)), in one pass."""
        return relu_dropout(x, self._rate)

    @property
    def _rate(self) -> float:
        return self.p if self.training else 0.0


class Linear(nn.Linear):
    """`torch.nn.Linear` by `autocl.ops.linear`: in bfloat16 where a training step asks for it.

    Example:
        >>> import torch
        >>> Linear(3, 5)(torch.zeros(2, 3)).shape
        torch.Size([2, 5])
    """

    def forward(self, input: Tensor) -> Tensor:
        """[..., K] -> [..., N]; bfloat16 in bfloat16."""
        return linear(input, self.weight, self.bias)


def version_of(module: nn.Module) -> list[int]:
    """Numbers that differ as soon as a parameter was changed or replaced, and what was made of it is stale.

    Faster than `module.parameters()`, since it stands before every answer.
    """
    found: list[int] = []
    waiting: list[nn.Module | None] = [module]
    while waiting:
        if (at := waiting.pop()) is None:
            continue
        waiting += at._modules.values()
        for p in at._parameters.values():
            if p is not None:
                found += (id(p), p.data_ptr())
                with suppress(RuntimeError):  # made in inference mode, it counts no versions
                    found.append(p._version)
    return found


@dataclass(frozen=True, kw_only=True)
class StackConfig:
    """Settings of a stack of layers."""

    width: int
    """C."""
    heads: int
    depth: int
    """Pairs of mixer and feed-forward sublayers, or what a mixer counts instead."""
    ff_factor: int = 2
    """Inner width of the feed-forward block, in units of the width."""
    dropout: float = 0.1
    norm: Literal["skip", "pre"] = "skip"
    """srwm: where the LayerNorm stands."""
    n_patches: int = 0
    """srmixer: patches of an image."""


Builder = Callable[[StackConfig], nn.ModuleList]
MIXERS: Registry[Builder] = Registry("mixer", "autocl.layers")
"""By name, functions that build the stack of layers whose state a learner carries."""
