"""Methods that keep images of earlier tasks: joint training, the upper bound, and naive rehearsal.

Shape legend: R = runs, m = stored images of one task.
"""

import torch

from autocl.baselines.base import Examples, StreamInfo, TaskExamples, register
from autocl.baselines.finetuning import FineTuning
from autocl.config import Count


class Replay(FineTuning):
    """Fine-tuning on the new task and on what was kept of the earlier ones."""

    uses_replay = True

    def begin(self, info: StreamInfo) -> None:
        """Draw the networks of all runs and forget the rest."""
        super().begin(info)
        self.kept: list[TaskExamples] = []

    def _stored(self) -> list[TaskExamples]:
        return self.kept


@register
class Joint(Replay):
    """A new network at each boundary, trained on all tasks so far, mixed. Not continual learning."""

    name = "joint"

    def _material(self, share: TaskExamples) -> list[TaskExamples]:
        self.kept = [*self.kept, share]
        self._start_networks()
        return self.kept


@register
class Rehearsal(Replay):
    """A memory of fixed size, shared equally by the tasks so far; old and new images count alike."""

    name = "rehearsal"

    memory: Count = 1100
    """Images in all. 1,100 of them as float32 take the bytes of the two tensors that a regulariser keeps
    beside a network of 2 × 400 units on 32×32 pixels."""

    def _material(self, share: TaskExamples) -> list[TaskExamples]:
        # Old images are few: repeat them until they weigh about as much as the new ones.
        times = max(share.index.shape[1] // self.memory, 1)
        return self.kept * times + [share]

    def _after(self, share: TaskExamples, examples: Examples) -> None:
        each = self.memory // (len(self.kept) + 1)
        self.kept = [self._some(s, each) for s in [*self.kept, share]]

    def _some(self, share: TaskExamples, n: int) -> TaskExamples:
        """At most n random images for each run."""
        size = share.index.shape[1]
        chosen = torch.stack([torch.randperm(size, generator=g)[:n] for g in self._generators])
        return TaskExamples(
            images=share.images,
            index=share.index.gather(1, chosen),
            labels=share.labels.gather(1, chosen),
        )
