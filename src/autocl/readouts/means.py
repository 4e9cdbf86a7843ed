"""Class means: a class is the mean of its demos' features.

Shape legend: B = streams, Q = queries, F = features, N = classes.
"""

from torch import Tensor

from autocl.readouts.base import READOUTS, ClassSums, ReadoutConfig, State, means_of


class MeanReadout(ClassSums):
    """Minus the squared distance to each mean (Snell et al. 2017, Eq. 2), over F.

    Example:
        >>> import torch
        >>> readout, f = MeanReadout(1), torch.tensor([[[0.0], [2.0]]])
        >>> state = readout.learn(f, torch.tensor([[0, 1]]), readout.initial_state(1, 2))
        >>> readout.read(torch.tensor([[[0.5]]]), state).tolist()
        [[[-0.25, -2.25]]]
    """

    def read(self, f: Tensor, state: State) -> Tensor:
        """[B, Q, N]. Divided by F so that a softmax of it does not saturate for long features."""
        mean = means_of(state)
        distance = f.square().sum(-1, keepdim=True) - 2 * f @ mean.mT + mean.square().sum(-1)[:, None]
        return -distance / f.shape[-1]


@READOUTS.register("means")
def _means(config: ReadoutConfig, n_features: int, n_classes: int) -> MeanReadout:
    return MeanReadout(n_features)
