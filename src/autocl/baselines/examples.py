"""Examples: the labelled images that R runs train on, each kept once however many runs use it.

Shape legend: R = runs, n = examples of a run, U = distinct images, D = inputs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from autocl.baselines.base import Diet
from autocl.data.fixed import FixedTask
from autocl.data.imageset import ImageSet
from autocl.errors import InputError


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


def share_of(tasks: Sequence[FixedTask], diet: Diet) -> Share:
    """What the tasks (one for each run) offer to a method on this diet."""
    sets = {id(t.demo_set): t.demo_set for t in tasks}
    index = [t.train_index if diet == "full" else t.demo_index for t in tasks]
    labels = [t.train_labels if diet == "full" else t.demo_labels for t in tasks]
    if len(sets) > 1 or len({len(i) for i in index}) > 1:
        raise InputError(
            f"runs that go side by side must train on equally many images of one set, got "
            f"{[len(i) for i in index]} of {sorted(s.name for s in sets.values())}: run them one by one"
        )
    return Share(images=tasks[0].demo_set, index=torch.stack(index), labels=torch.stack(labels))


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
