"""SRWMLayer: the self-referential sublayer of the paper's "Recursive Self-Transformer".

Shape legend: B = streams, T = demos, Q = queries, H = heads, D = head size, C = H·D, R = 3D + 4.
"""

from typing import Literal

import torch
from torch import Tensor, nn

from autocl.errors import InputError
from autocl.layers.base import MIXERS, Dropout, Linear, StackConfig, State
from autocl.layers.feedforward import with_feedforward
from autocl.ops.srwm import srwm

Norm = Literal["skip", "pre"]
BLOCKS = ("y", "q", "k", "β")
"""Row blocks of the matrix: output, query, key, and the learning rates of the four blocks."""


class SRWMLayer(nn.Module):
    """A residual sublayer whose weights are its state.

    norm="skip" is the paper's wiring: LayerNorm(h) + dropout(W_out SRWM(h)), the SRWM reading the raw
    residual stream. norm="pre" is the usual Transformer's: h + dropout(W_out SRWM(LayerNorm(h))).

    Args:
        width: C.
        heads: H, a divisor of C.
        dropout: rate on the sublayer's output.
        norm: where the LayerNorm stands.

    Example:
        >>> layer = SRWMLayer(width=16, heads=2)
        >>> h, state = layer(torch.zeros(3, 5, 16), layer.initial_state(3))
        >>> h.shape, state["W"].shape
        (torch.Size([3, 5, 16]), torch.Size([3, 2, 28, 8]))
    """

    def __init__(self, *, width: int, heads: int, dropout: float = 0.1, norm: Norm = "skip") -> None:
        super().__init__()
        if width % heads:
            raise InputError(f"SRWM needs heads that divide its width, got width {width}, heads {heads}")
        if norm not in ("skip", "pre"):
            raise InputError(f"unknown norm {norm!r} of the SRWM layer: choose 'skip' (the paper's) or 'pre'")
        self.heads = heads
        self.placement = norm
        D = width // heads
        # A query is multiplied with the same matrix again at once: a small block keeps that product tame.
        block_std = [(D, 1.0), (D, 0.01), (D, 1.0), (4, 1.0)]
        rows = [torch.randn(heads, n, D) * std / D**0.5 for n, std in block_std]
        self.W = nn.Parameter(torch.cat(rows, dim=1))
        self.norm = nn.LayerNorm(width)
        self.out = Linear(width, width, bias=False)
        self.dropout = Dropout(dropout)

    def initial_state(self, batch: int) -> State:
        """The meta-learned matrix, once for each stream: W [B, H, R, D]."""
        return {"W": self.W.expand(batch, -1, -1, -1)}

    def forward(self, h: Tensor, state: State) -> tuple[Tensor, State]:
        """Run a segment h [B, T, C]; the matrices rewrite themselves at every demo."""
        skip, u = self._branches(h)
        y, W = srwm(u, state["W"])
        return self._join(skip, y), {"W": W}

    def learn(self, h: Tensor, state: State) -> State:
        """Run a segment h [B, T, C] for its state alone, as the last layer of demos does."""
        _, W = srwm(self._branches(h)[1], state["W"])
        return {"W": W}

    def read(self, h: Tensor, state: State) -> Tensor:
        """Answer queries h [B, Q, C]: only the y-block of the state is read, for all queries at once."""
        skip, u = self._branches(h)
        D = u.shape[-1]
        return self._join(skip, u @ state["W"][:, :, :D].mT)

    def rates(self, h: Tensor, state: State) -> Tensor:
        """Learning rates σ(β) [B, H, T, 4] of the blocks y, q, k, β that demos h [B, T, C] would meet."""
        _, u = self._branches(h)
        beta: Tensor = u @ state["W"][:, :, 3 * u.shape[-1] :].mT
        return beta.sigmoid()

    def _branches(self, h: Tensor) -> tuple[Tensor, Tensor]:
        """The skip path [B, T, C], and the recurrence's input [B, H, T, D]."""
        normed = self.norm(h)
        skip, x = (normed, h) if self.placement == "skip" else (h, normed)
        return skip, x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def _join(self, skip: Tensor, y: Tensor) -> Tensor:
        """Add the heads' output y [B, H, T, D] to the skip path."""
        return self.dropout.add(skip, self.out(y.transpose(1, 2).flatten(-2)))


@MIXERS.register("srwm")
def _srwm(config: StackConfig) -> nn.ModuleList:
    return with_feedforward(config, SRWMLayer, norm=config.norm)
