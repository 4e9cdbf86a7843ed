"""Groups of prototypes that have a mean of their own: the classes, or clusters within them.

Shape legend: B = streams, M = prototypes, N = classes, G = groups.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from scipy.cluster.hierarchy import linkage
from torch import Tensor
from torch.nn import functional as F

from autocl.readouts.memory import FREE
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
    B, M = moments.used.shape
    label = moments.memory.label.cpu().numpy()
    number = np.zeros((len(REACH), B, M), np.int64)
    count = np.zeros((len(REACH), B), np.int64)
    owner = np.zeros((len(REACH), B, M), np.int64)
    points = moments.memory.prototype.detach().cpu().numpy()
    for b in range(B):
        for c in np.unique(label[b][label[b] != FREE]):
            of_class = np.flatnonzero(label[b] == c)
            tree = linkage(points[b, of_class], "ward") if len(of_class) > 1 else None
            for r, reach in enumerate(REACH):
                found = [0] if tree is None else _cut(tree, reach * float(np.median(tree[:, 2])))
                first, last = count[r, b], count[r, b] + max(found) + 1
                number[r, b, of_class] = first + np.array(found)
                owner[r, b, first:last] = c
                count[r, b] = last
    groups = []
    for r in range(len(REACH)):
        G = max(1, int(count[r].max()))
        which = torch.from_numpy(number[r]).to(moments.used.device)
        member = F.one_hot(which, G).to(moments.used.dtype) * moments.used[..., None]
        groups.append(Groups(member, torch.from_numpy(owner[r, :, :G]).to(which.device)))
    return groups


def _cut(tree: npt.NDArray[np.float64], height: float) -> list[int]:
    """Number of the cluster of each point, when mergers of a tree of scipy's `linkage` up to a height hold.

    As its `fcluster` does, which checks its arguments thirty times as long as it works on a few points.
    """
    points, clusters = len(tree) + 1, 0
    label = [-1] * (2 * points - 1)
    for k, (left, right, distance, _) in reversed(list(enumerate(tree.tolist()))):
        if distance <= height:
            if label[points + k] < 0:
                label[points + k] = clusters
                clusters += 1
            label[int(left)] = label[int(right)] = label[points + k]
    for i in range(points):
        if label[i] < 0:
            label[i] = clusters
            clusters += 1
    return label[:points]
