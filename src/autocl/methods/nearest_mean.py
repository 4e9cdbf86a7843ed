"""Nearest class mean: a class is the mean of its demos' features.

Shape legend: B = runs, Q = queries, F = features, N = outputs.
"""

from dataclasses import dataclass

from torch import Tensor

from autocl.methods.base import register
from autocl.methods.readout import ClassSums, Readout, Stats, mask_unseen, means_of
from autocl.methods.representation import OnFrozenFeatures


class MeanReadout(ClassSums):
    """Minus the squared distance to each mean (Snell et al. 2017, Eq. 2), over F.

    Example:
        >>> import torch
        >>> readout, f = MeanReadout(), torch.tensor([[[0.0], [2.0]]])
        >>> stats = readout.learn(readout.initial(1, 1, 2), f, torch.tensor([[0, 1]]))
        >>> readout.scores(stats, torch.tensor([[[0.5]]])).tolist()
        [[[-0.25, -2.25]]]
    """

    def scores(self, stats: Stats, f: Tensor) -> Tensor:
        """[B, Q, N]. Divided by F so that a softmax of it does not saturate for long features."""
        mean = means_of(stats)
        distance = f.square().sum(-1, keepdim=True) - 2 * f @ mean.mT + mean.square().sum(-1)[:, None]
        return mask_unseen(-distance / f.shape[-1], stats)


@register
@dataclass(kw_only=True, eq=False)
class NearestMean(OnFrozenFeatures):
    """Nearest class mean on somebody else's encoder."""

    name = "nearest-mean"

    def make_readout(self) -> Readout:
        """Class means."""
        return MeanReadout()
