"""k nearest neighbours: the one read-out that keeps every demo.

Shape legend: B = streams, T = demos so far, Q = queries, F = features, N = classes.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from autocl.readouts.base import READOUTS, Readout, ReadoutConfig, State


class NeighbourReadout(Readout):
    """Votes of the nearest demos, each weighted by one over its distance. Its state grows with the stream.

    Args:
        n_features: F.
        neighbours: how many vote.
    """

    per_class = {"count": 1}  # noqa: RUF012 (a ClassVar of Readout)
    per_demo = {"f": 1, "y": 1}  # noqa: RUF012 (a ClassVar of Readout)

    def __init__(self, n_features: int, neighbours: int) -> None:
        super().__init__()
        self.n_features = n_features
        self.neighbours = neighbours

    def initial_state(self, batch: int, n_classes: int) -> State:
        """No demos: f [B, 0, F], y [B, 0], count [B, N]."""
        return {
            "f": self.zeros(batch, 0, self.n_features),
            "y": self.zeros(batch, 0).long(),
            "count": self.zeros(batch, n_classes),
        }

    def learn(self, f: Tensor, y: Tensor, state: State) -> State:
        """Keep the demos."""
        return {
            "f": torch.cat([state["f"], f], dim=1),
            "y": torch.cat([state["y"], y], dim=1),
            "count": state["count"] + F.one_hot(y, state["count"].shape[1]).to(f.dtype).sum(1),
        }

    def read(self, f: Tensor, state: State) -> Tensor:
        """[B, Q, N], shares of the vote."""
        # Differences, not products: these cancel where a demo is met again, differently in every company.
        distance = torch.cdist(f, state["f"], compute_mode="donot_use_mm_for_euclid_dist")
        near, which = distance.topk(min(self.neighbours, distance.shape[-1]), largest=False)
        # A demo met again has distance 0 and must win, not make infinities.
        weight = 1 / near.clamp(min=1e-6)
        votes = torch.zeros_like(distance).scatter(-1, which, weight / weight.sum(-1, keepdim=True))
        return votes @ F.one_hot(state["y"], state["count"].shape[1]).to(f.dtype)

    def merge(self, states: Sequence[State]) -> State:
        """All demos together; the labels of each state follow those of the states before it."""
        sizes = [0, *(self.n_classes(state) for state in states)]
        starts = torch.tensor(sizes).cumsum(0).tolist()
        moved = [{**state, "y": state["y"] + at} for state, at in zip(states, starts, strict=False)]
        return super().merge(moved)


@READOUTS.register("knn")
def _knn(config: ReadoutConfig, n_features: int, n_classes: int) -> NeighbourReadout:
    return NeighbourReadout(n_features, config.neighbours)
