"""FeedForward: the two-layer block between the layers that have a state.

Shape legend: B = streams, T = tokens, C = model width.
"""

from collections.abc import Callable

import torch
from torch import nn

from autocl.layers.base import Dropout, Linear, StackConfig


class FeedForward(nn.Module):
    """Pre-norm residual block: h + dropout(W2 dropout(relu(W1 LayerNorm(h)))). It keeps no state.

    Args:
        width: C.
        inner: width between the two linear maps.
        dropout: rate, after the activation and on the block's output.

    Example:
        >>> layer = FeedForward(width=8, inner=16)
        >>> h, state = layer(torch.zeros(2, 5, 8), layer.initial_state(2))
        >>> h.shape, state
        (torch.Size([2, 5, 8]), {})
    """

    def __init__(self, *, width: int, inner: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.LayerNorm(width),
            Linear(width, inner),
            nn.ReLU(),
            Dropout(dropout),
            Linear(inner, width),
            Dropout(dropout),
        )

    def initial_state(self, batch: int) -> dict[str, torch.Tensor]:
        """The empty state: nothing here depends on the past."""
        return {}

    def forward(
        self, h: torch.Tensor, state: dict[str, torch.Tensor]
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        """Transform each token of h [B, T, C] on its own."""
        return self.read(h, state), state

    def read(self, h: torch.Tensor, state: dict[str, torch.Tensor]) -> torch.Tensor:
        """Transform queries h [B, Q, C] exactly as `forward` transforms demos."""
        norm, up, _, inner, down, outer = self.net
        assert isinstance(inner, Dropout)
        assert isinstance(outer, Dropout)
        # h + self.net(h), but each dropout in one pass with its neighbour.
        return outer.add(h, down(inner.relu(up(norm(h)))))


def with_feedforward(config: StackConfig, make_mixer: Callable[[], nn.Module]) -> nn.ModuleList:
    """`depth` pairs of a mixer and a feed-forward block."""
    layers = nn.ModuleList()
    for _ in range(config.depth):
        layers.append(make_mixer())
        inner = config.ff_factor * config.width
        layers.append(FeedForward(width=config.width, inner=inner, dropout=config.dropout))
    return layers
