"""LSTM: the plain recurrent rival, whose state is two vectors.

Shape legend: B = streams, T = tokens, Q = queries, C = input width, M = hidden width.
"""

import torch
from torch import Tensor, nn

from autocl.layers.base import MIXERS, Dropout, StackConfig


class LSTM(nn.Module):
    """One LSTM layer, without residual or norm, as the meta-learning literature stacks them.

    Args:
        width: C.
        hidden: M, also the width of the output.
        dropout: rate on the output.

    Example:
        >>> layer = LSTM(width=8, hidden=4)
        >>> h, state = layer(torch.zeros(2, 5, 8), layer.initial_state(2))
        >>> h.shape, state["c"].shape
        (torch.Size([2, 5, 4]), torch.Size([2, 4]))
    """

    def __init__(self, *, width: int, hidden: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.cell = nn.LSTM(width, hidden, batch_first=True)
        self.dropout = Dropout(dropout)

    def initial_state(self, batch: int) -> dict[str, Tensor]:
        """Zeros: the last output h and the cells c, [B, M]."""
        zeros = self.cell.all_weights[0][0].new_zeros(batch, self.cell.hidden_size)
        return {"h": zeros, "c": zeros.clone()}

    def forward(self, h: Tensor, state: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """Run a segment h [B, T, C] to outputs [B, T, M]."""
        out, (last, cells) = self.cell(h, (state["h"][None], state["c"][None]))
        return self.dropout(out), {"h": last[0], "c": cells[0]}

    def read(self, h: Tensor, state: dict[str, Tensor]) -> Tensor:
        """Answer queries h [B, Q, C] with [B, Q, M], one step each; what the state adds is computed once."""
        w_input, w_state, b_input, b_state = self.cell.all_weights[0]
        from_input = nn.functional.linear(h, w_input, b_input)
        from_state = nn.functional.linear(state["h"], w_state, b_state)
        enter, forget, candidate, leave = (from_input + from_state[:, None]).chunk(4, dim=-1)
        cells = forget.sigmoid() * state["c"][:, None] + enter.sigmoid() * candidate.tanh()
        out: Tensor = self.dropout(leave.sigmoid() * torch.tanh(cells))
        return out


@MIXERS.register("lstm")
def _lstm(config: StackConfig) -> nn.ModuleList:
    C = config.width
    return nn.ModuleList(LSTM(width=C, hidden=C, dropout=config.dropout) for _ in range(config.depth))
