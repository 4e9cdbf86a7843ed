"""Readout: a classifier over features that learns in closed form, or by its own small rule, demo by demo.

Shape legend: B = streams or runs side by side, T = demos, Q = queries, F = features, N = outputs.
"""

from abc import abstractmethod

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Stats = dict[str, Tensor]
"""What a readout knows, batch first."""


class Readout(nn.Module):
    """A pure learner over features. Its parameters, if it has any, are meta-learned; its stats are learned.

    `learn(a + b)` equals `learn(a)` followed by `learn(b)` unless told to go over its demos several times.
    Nothing is changed in place: gradients flow through the stats into features and parameters, which is how
    encoders are meta-trained under a readout.
    """

    steps_per_demo: int = 0
    """Gradient steps that one demo costs."""

    @abstractmethod
    def initial(self, batch: int, n_features: int, n_outputs: int) -> Stats:
        """What is known before the first demo."""

    @abstractmethod
    def learn(self, stats: Stats, f: Tensor, y: Tensor) -> Stats:
        """Demos with features f [B, T, F] and labels y [B, T] -> what is known after them."""

    @abstractmethod
    def scores(self, stats: Stats, f: Tensor) -> Tensor:
        """Logits [B, Q, N] of queries f [B, Q, F]."""


class ClassSums(Readout):
    """Readouts that start from the number of demos of each class and the sum of their features."""

    def initial(self, batch: int, n_features: int, n_outputs: int) -> Stats:
        """Zeros: count [B, N], sum [B, N, F]."""
        return {
            "count": torch.zeros(batch, n_outputs),
            "sum": torch.zeros(batch, n_outputs, n_features),
        }

    def learn(self, stats: Stats, f: Tensor, y: Tensor) -> Stats:
        """Add the demos."""
        member = F.one_hot(y, stats["count"].shape[1]).to(f.dtype)
        return {"count": stats["count"] + member.sum(1), "sum": stats["sum"] + member.mT @ f}


def means_of(stats: Stats) -> Tensor:
    """Class means [B, N, F]; zero for classes without demos."""
    mean: Tensor = stats["sum"] / stats["count"].clamp(min=1)[..., None]
    return mean


def mask_unseen(scores: Tensor, stats: Stats) -> Tensor:
    """-inf for classes without demos: scores [B, Q, N]."""
    return scores.masked_fill(stats["count"][:, None] == 0, -torch.inf)
