"""Trace: what a learner knows between boundaries, asked every few demos.

Shape legend: R = runs side by side, M = tasks, T = demos of a task, P = moments at which all tasks are asked.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from autocl.baselines.incontext import InContext
from autocl.data.stream import Stream, side_by_side
from autocl.matrix import learning_acceleration, stability_gap
from autocl.passage import passage


@dataclass(frozen=True, kw_only=True, eq=False)
class Trace:
    """Accuracy on every task at moments of a stream."""

    accuracy: Tensor
    """float64 [R, P, M] in [0, 1]."""
    demos: Tensor
    """int64 [P]: demos seen before each moment, from 0."""
    learned: Tensor
    """int64 [M]: the moment that is the boundary of each task."""
    few: Tensor
    """int64 [M]: the first moment within each task."""
    tasks: tuple[str, ...]

    def stability_gap(self) -> Tensor:
        """How far learned tasks fall between boundaries, [R]."""
        return stability_gap(self.accuracy, self.learned)

    def learning_acceleration(self) -> Tensor:
        """Accuracy after the first few demos of later tasks against the first task, [R]."""
        task = torch.arange(len(self.tasks))
        return learning_acceleration(self.accuracy[:, self.few, task])


def trace(method: InContext, streams: Sequence[Stream], *, every: int, queries: int | None = None) -> Trace:
    """Take a learner through streams and ask about all tasks every so many demos.

    Args:
        method: a learner; only learners can stop in the middle of a task without being disturbed.
        streams: one for each run.
        every: demos between two moments; the end of a task is always one.
        queries: most of each task.
    """
    stream = side_by_side(streams)
    moments = list(passage(method, stream, every=every, queries=queries, forward=True))
    task_of = [m.task for m in moments]
    return Trace(
        accuracy=torch.stack([m.accuracy for m in moments], dim=1),
        demos=torch.tensor([m.demos for m in moments]),
        learned=torch.tensor([i for i, m in enumerate(moments) if m.at_boundary]),
        few=torch.tensor([task_of.index(task) for task in range(len(stream.tasks))]),
        tasks=tuple(t.name for t in stream.tasks),
    )
