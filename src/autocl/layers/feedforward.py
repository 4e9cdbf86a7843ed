"""FeedForward: the two-layer block between the layers that have a state.

Shape legend: B = streams, T = tokens, C = model width.
"""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from autocl.layers.base import Dropout, Linear, StackConfig, State, Stateless


class FeedForward(Stateless):
    """Pre-norm residual block: h + dropout(W2 dropout(relu(W1 LayerNorm(h)))). It keeps no state.

    Args:
        width: C.
        inner: width between the two linear maps.
        dropout: rate, after the activation and on the block's output.

    Example:
        >>> import torch
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

    def read(self, h: Tensor, state: State) -> Tensor:
        """Transform each token of h [B, T, C] on its own."""
        norm, up, _, inner, down, outer = self.net
        assert isinstance(inner, Dropout)
        assert isinstance(outer, Dropout)
        # h + self.net(h), but each dropout in one pass with its neighbour.
        return outer.add(h, down(inner.relu(up(norm(h)))))


def with_feedforward(config: StackConfig, mixer: Callable[..., nn.Module], **options: Any) -> nn.ModuleList:
    """`depth` pairs of a mixer, which may take options of its own, and a feed-forward block."""
    C, dropout = config.width, config.dropout
    layers = nn.ModuleList()
    for _ in range(config.depth):
        layers.append(mixer(width=C, heads=config.heads, dropout=dropout, **options))
        layers.append(FeedForward(width=C, inner=config.ff_factor * C, dropout=dropout))
    return layers
