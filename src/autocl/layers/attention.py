"""CausalAttention: softmax attention with a key-value cache, the Transformer the paper compares costs with.

Shape legend: B = streams, T = tokens, Q = queries, C = model width, N = heads, D = C / N, S = tokens seen.
"""

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from autocl.errors import InputError
from autocl.layers.base import MIXERS, Dropout, Linear, StackConfig
from autocl.layers.feedforward import with_feedforward


class CausalAttention(nn.Module):
    """Pre-norm residual self-attention: h + dropout(W_out attend(LayerNorm(h))).

    Its state is every key and value it has seen, so unlike the other layers' it grows with the stream.

    Args:
        width: C.
        heads: N, a divisor of C.
        dropout: rate on the block's output.

    Example:
        >>> layer = CausalAttention(width=8, heads=2)
        >>> h, state = layer(torch.zeros(1, 5, 8), layer.initial_state(1))
        >>> state["k"].shape, layer.read(torch.zeros(1, 3, 8), state).shape
        (torch.Size([1, 2, 5, 4]), torch.Size([1, 3, 8]))
    """

    per_demo: ClassVar[dict[str, int]] = {"k": 2, "v": 2}
    """Axes of its state that grow with the stream."""

    def __init__(self, *, width: int, heads: int, dropout: float = 0.1) -> None:
        super().__init__()
        if width % heads:
            raise InputError(f"attention needs heads that divide its width, got width {width}, heads {heads}")
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.qkv = Linear(width, 3 * width, bias=False)
        self.out = Linear(width, width, bias=False)
        self.dropout = Dropout(dropout)

    def initial_state(self, batch: int) -> dict[str, Tensor]:
        """An empty cache: k and v, [B, N, 0, D]."""
        width = self.out.in_features
        empty = self.out.weight.new_empty(batch, self.heads, 0, width // self.heads)
        return {"k": empty, "v": empty.clone()}

    def forward(self, h: Tensor, state: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """Run a segment h [B, T, C]: token t sees the cache and tokens 0..t."""
        q, k, v = self._split(h)
        seen, steps = state["k"].shape[2], h.shape[1]
        k, v = torch.cat([state["k"], k], dim=2), torch.cat([state["v"], v], dim=2)
        visible = torch.ones(steps, seen + steps, dtype=torch.bool, device=h.device).tril(seen)
        y = scaled_dot_product_attention(q, k, v, attn_mask=visible)
        return self._join(h, y), {"k": k, "v": v}

    def read(self, h: Tensor, state: dict[str, Tensor]) -> Tensor:
        """Answer queries h [B, Q, C]: each sees the cache and itself, not the other queries."""
        q, k, v = self._split(h)
        q = q * q.shape[-1] ** -0.5
        to_cache = q @ state["k"].mT
        to_itself = (q * k).sum(-1, keepdim=True)
        weight = torch.cat([to_cache, to_itself], dim=-1).softmax(-1)
        y = weight[..., :-1] @ state["v"] + weight[..., -1:] * v
        return self._join(h, y)

    def _split(self, h: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """q, k, v, each [B, N, T, D]."""
        qkv = self.qkv(self.norm(h)).to(h.dtype).unflatten(-1, (3, self.heads, -1))
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        return q, k, v

    def _join(self, h: Tensor, y: Tensor) -> Tensor:
        return self.dropout.add(h, self.out(y.transpose(1, 2).flatten(2)))


@MIXERS.register("attention")
def _attention(config: StackConfig) -> nn.ModuleList:
    return with_feedforward(config, CausalAttention)
