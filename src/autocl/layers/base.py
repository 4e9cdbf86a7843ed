"""What a layer of a learner is: a pure function of (input, state), with a way to answer queries.

Shape legend: B = streams, T = demos of a segment, Q = queries, C = width in, C' = width out.
"""

from typing import Protocol

from torch import Tensor

State = dict[str, Tensor]
"""A layer's part of the learner's state: named tensors, batch first."""


class Layer(Protocol):
    """Anything that can stand in a learner's stack."""

    def initial_state(self, batch: int) -> State:
        """What the layer knows before the first demo."""

    def __call__(self, h: Tensor, state: State) -> tuple[Tensor, State]:
        """Run a segment of demos h [B, T, C] -> [B, T, C'] and return the state after it, as new tensors."""

    def read(self, h: Tensor, state: State) -> Tensor:
        """Answer queries h [B, Q, C] -> [B, Q, C'], each a segment of length one whose state is dropped."""
