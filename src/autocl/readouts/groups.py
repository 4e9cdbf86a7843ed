"""Groups of prototypes that have a mean of their own: the classes, or clusters within them.

Shape legend: B = streams, M = prototypes, N = classes, G = groups.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from autocl.readouts.moments import Moments

REACH = (1.5, 3.0)
"""Two clusters of one class are one as long as their distance is below this many times the median distance at
which clusters of the class became one. Chosen on validation sets."""


class Groups(NamedTuple):
    """Prototypes that belong together; each group is of one class."""

    member: Tensor
    """[B, M, G], one-hot; zero rows at free places."""
    owner: Tensor
    """[B, G], the class of each group; any one for a group without members."""


def classes_of(moments: Moments) -> Groups:
    """Each class as one group."""
    N = moments.size.shape[1]
    return Groups(moments.target, torch.arange(N, device=moments.size.device).expand(len(moments.size), N))


def clusters_of(moments: Moments) -> list[Groups]:
    """The prototypes of each class in clusters by Ward's criterion, for every reach of `REACH`.

    A label that names many things, as it does where tasks share labels, has one or more clusters for each.
    """
    # Imported here because importing numba takes longer than importing all of autocl.
    from autocl.readouts import merging

    B, M = moments.used.shape
    point, label = moments.memory.prototype.detach().cpu().double(), moments.memory.label.cpu().numpy()
    square = point.square().sum(-1)
    distance = (square[..., None] + square[:, None] - 2 * point @ point.mT).numpy()
    number, owner = np.zeros((2, len(REACH), B, M), np.int64)
    count = [
        merging.clusters(distance[b], label[b], np.array(REACH), number[:, b], owner[:, b]) for b in range(B)
    ]
    groups = []
    for r, G in enumerate(np.max(count, 0).clip(min=1)):
        which = torch.from_numpy(number[r]).to(moments.used.device)
        member = F.one_hot(which, int(G)).to(moments.used.dtype) * moments.used[..., None]
        groups.append(Groups(member, torch.from_numpy(owner[r, :, :G]).to(which.device)))
    return groups
