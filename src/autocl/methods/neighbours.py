"""k nearest neighbours: the one representation rival that keeps every demo.

Shape legend: B = runs, T = demos, Q = queries, F = features, N = outputs.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from autocl.errors import InputError
from autocl.methods.base import register
from autocl.methods.readout import Readout, Stats, mask_unseen
from autocl.methods.representation import OnFrozenFeatures


class NeighbourReadout(Readout):
    """Votes of the nearest demos, each weighted by one over its distance.

    Args:
        neighbours: how many vote.
    """

    def __init__(self, neighbours: int) -> None:
        super().__init__()
        self.neighbours = neighbours

    def initial(self, batch: int, n_features: int, n_outputs: int) -> Stats:
        """No demos: f [B, 0, F], member [B, 0, N], count [B, N]."""
        return {
            "f": torch.zeros(batch, 0, n_features),
            "member": torch.zeros(batch, 0, n_outputs),
            "count": torch.zeros(batch, n_outputs),
        }

    def learn(self, stats: Stats, f: Tensor, y: Tensor) -> Stats:
        """Keep the demos. The stats grow."""
        member = F.one_hot(y, stats["count"].shape[1]).to(f.dtype)
        return {
            "f": torch.cat([stats["f"], f], dim=1),
            "member": torch.cat([stats["member"], member], dim=1),
            "count": stats["count"] + member.sum(1),
        }

    def scores(self, stats: Stats, f: Tensor) -> Tensor:
        """[B, Q, N], shares of the vote."""
        distance = torch.cdist(f, stats["f"])
        near, which = distance.topk(min(self.neighbours, distance.shape[-1]), largest=False)
        # A demo met again has distance 0 and must win, not make infinities.
        weight = 1 / near.clamp(min=1e-6)
        votes = torch.zeros_like(distance).scatter(-1, which, weight / weight.sum(-1, keepdim=True))
        return mask_unseen(votes @ stats["member"], stats)


@register
@dataclass(kw_only=True, eq=False)
class NearestNeighbours(OnFrozenFeatures):
    """k-NN on a frozen encoder. Its state grows with the stream: it replays features, if not images."""

    name = "knn"
    uses_replay = True

    neighbours: int = 5
    """k."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.neighbours < 1:
            raise InputError(f"neighbours must be at least 1, got {self.neighbours}")

    def make_readout(self) -> Readout:
        """All demos."""
        return NeighbourReadout(self.neighbours)
