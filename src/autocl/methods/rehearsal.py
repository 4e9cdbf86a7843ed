"""Naive rehearsal: a few images of earlier tasks are kept and mixed with the new ones.

Shape legend: R = runs, m = stored images of one task.
"""

from dataclasses import dataclass

import torch

from autocl.errors import InputError
from autocl.methods.base import StreamInfo, register
from autocl.methods.examples import Examples, Share
from autocl.methods.trained import Trained


@register
@dataclass(kw_only=True, eq=False)
class Rehearsal(Trained):
    """A memory of fixed size, shared equally by the tasks so far; old and new images count alike."""

    name = "rehearsal"
    uses_replay = True

    memory: int = 1100
    """Images in all. 1,100 of them as float32 take the bytes of the two tensors that a regulariser keeps
    beside a network of 2 × 400 units on 32×32 pixels."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.memory < 1:
            raise InputError(f"memory must hold at least 1 image, got {self.memory}")

    def begin(self, info: StreamInfo) -> None:
        """Draw the networks of all runs and forget the rest."""
        super().begin(info)
        self.kept: list[Share] = []

    def _stored(self) -> list[Share]:
        return self.kept

    def _material(self, share: Share) -> list[Share]:
        # Old images are few: repeat them until they weigh about as much as the new ones.
        times = max(share.index.shape[1] // self.memory, 1)
        return self.kept * times + [share]

    def _after(self, share: Share, examples: Examples) -> None:
        each = self.memory // (len(self.kept) + 1)
        self.kept = [self._some(s, each) for s in [*self.kept, share]]

    def _some(self, share: Share, n: int) -> Share:
        """At most n random images for each run."""
        size = share.index.shape[1]
        chosen = torch.stack([torch.randperm(size, generator=g)[:n] for g in self._generators])
        return Share(
            images=share.images,
            index=share.index.gather(1, chosen),
            labels=share.labels.gather(1, chosen),
        )
