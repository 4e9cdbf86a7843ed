"""Examples: the labelled images that R runs train on, each kept once however many runs use it.

Shape legend: R = runs, n = examples of a run, U = distinct images, D = inputs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from autocl.baselines.base import Diet
from autocl.data.imageset import ImageSet
from autocl.data.stream import Task


@dataclass(frozen=True, kw_only=True, eq=False)
class Share:
    """Rows of one image set, with labels: what a task gives each run."""

    images: ImageSet
    index: Tensor
    """int64 [R, n]."""
    labels: Tensor
    """int64 [R, n]."""

    @property
    def nbytes(self) -> int:
        """Bytes of one run's images and labels, if a method has to keep them: pixels as float32."""
        return self.index.shape[1] * (4 * math.prod(self.images.images.shape[1:]) + 8)


@dataclass(frozen=True, kw_only=True, eq=False)
class Examples:
    """Inputs ready for a network that reads vectors."""

    inputs: Tensor
    """float32 [U, D]."""
    rows: Tensor
    """int64 [R, n], into inputs."""
    labels: Tensor
    """int64 [R, n]."""

    def take(self, order: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs [R, B, D] and labels [R, B] for positions order [R, B] among each run's examples."""
        return self.inputs[self.rows.gather(1, order)], self.labels.gather(1, order)


def share_of(task: Task, diet: Diet) -> Share:
    """What a task offers to a method on this diet."""
    images, _ = task.sets
    if diet == "full" and task.train is not None and task.train_labels is not None:
        return Share(images=images, index=task.train, labels=task.train_labels)
    return Share(images=images, index=task.demos, labels=task.demo_labels)


def gather(shares: Sequence[Share]) -> Examples:
    """All shares together, in order."""
    inputs, rows, start = [], [], 0
    for share in shares:
        distinct, position = torch.unique(share.index, return_inverse=True)
        inputs.append(share.images.take(distinct).flatten(1))
        rows.append(position + start)
        start += len(distinct)
    return Examples(
        inputs=torch.cat(inputs) if len(inputs) > 1 else inputs[0],
        rows=torch.cat(rows, dim=1),
        labels=torch.cat([s.labels for s in shares], dim=1),
    )
