"""DeltaLayer: fast weights written by a slow network, the DeltaNet rival of the self-referential layer.

Shape legend: B = streams, T = demos, Q = queries, H = heads, D = head size, C = H·D.
"""

from torch import Tensor, nn
from torch.nn import functional as F

from autocl.errors import InputError
from autocl.layers.base import MIXERS, Dropout, Linear, StackConfig, State
from autocl.layers.feedforward import with_feedforward
from autocl.ops.delta import delta


class DeltaLayer(nn.Module):
    """Pre-norm residual sublayer: h + dropout(W_out DeltaNet(LayerNorm(h))).

    A slow linear map gives each head its query, key, value and learning rate; queries and keys become
    positive by elu + 1 and sum to one. The fast weights start at zero and are the state. Gradients through
    them are exact across segments, and a query leaves them alone; neither held for the DeltaNet of the
    paper's code.

    Args:
        width: C.
        heads: H, a divisor of C.
        dropout: rate on the sublayer's output.
        additive: linear attention, which adds values to its weights without correcting them.

    Example:
        >>> import torch
        >>> layer = DeltaLayer(width=16, heads=2)
        >>> h, state = layer(torch.zeros(3, 5, 16), layer.initial_state(3))
        >>> h.shape, state["W"].shape
        (torch.Size([3, 5, 16]), torch.Size([3, 2, 8, 8]))
    """

    def __init__(self, *, width: int, heads: int, dropout: float = 0.1, additive: bool = False) -> None:
        super().__init__()
        if width % heads:
            raise InputError(f"DeltaNet needs heads that divide its width, got width {width}, heads {heads}")
        self.heads = heads
        self.head_size = width // heads
        self.additive = additive
        self.norm = nn.LayerNorm(width)
        self.slow = Linear(width, heads * (3 * self.head_size + 1), bias=False)
        self.out = Linear(width, width, bias=False)
        self.dropout = Dropout(dropout)

    def initial_state(self, batch: int) -> State:
        """Empty fast weights: W [B, H, D, D]."""
        D = self.head_size
        return {"W": self.out.weight.new_zeros(batch, self.heads, D, D)}

    def forward(self, h: Tensor, state: State) -> tuple[Tensor, State]:
        """Run a segment h [B, T, C]; each demo writes to the fast weights, then reads them."""
        y, W = delta(*self._written(h), state["W"], additive=self.additive)
        return self._join(h, y), {"W": W}

    def read(self, h: Tensor, state: State) -> Tensor:
        """Answer queries h [B, Q, C], each with its own write, which only it sees.

        (W + β e kᵀ) q = W q + β (k·q) e, so no query needs weights of its own.
        """
        q, k, v, beta = self._written(h)
        Wt = state["W"].mT
        error = v if self.additive else v - k @ Wt
        gain = beta * (k * q).sum(-1)
        return self._join(h, q @ Wt + gain[..., None] * error)

    def _written(self, h: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Project h to q, k, v [B, H, T, D] and β [B, H, T] by the slow network."""
        D = self.head_size
        z = self.slow(self.norm(h)).to(h.dtype).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        q, k, v, beta = z.split([D, D, D, 1], dim=-1)
        return _positive(q), _positive(k), v, beta.squeeze(-1).sigmoid()

    def _join(self, h: Tensor, y: Tensor) -> Tensor:
        return self.dropout.add(h, self.out(y.transpose(1, 2).flatten(-2)))


def _positive(x: Tensor) -> Tensor:
    """elu(x) + 1, divided by its sum over the last axis."""
    x = F.elu(x) + 1
    return x / x.sum(-1, keepdim=True)


@MIXERS.register("delta")
def _delta(config: StackConfig) -> nn.ModuleList:
    return with_feedforward(config, DeltaLayer)


@MIXERS.register("linear")
def _linear(config: StackConfig) -> nn.ModuleList:
    return with_feedforward(config, DeltaLayer, additive=True)
