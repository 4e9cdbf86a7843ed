"""Trace: what a learner knows between boundaries, asked every few demos.

Shape legend: R = runs side by side, M = tasks, T = demos of a task, P = moments at which all tasks are asked.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from autocl.baselines.base import StreamInfo
from autocl.baselines.incontext import InContext
from autocl.data.fixed import FixedStream, FixedTask
from autocl.errors import InputError
from autocl.evaluation.harness import accuracy, ask_about
from autocl.matrix import learning_acceleration, stability_gap


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


def trace(
    method: InContext, streams: Sequence[FixedStream], *, every: int, queries: int | None = None
) -> Trace:
    """Take a learner through streams and ask about all tasks every so many demos.

    Args:
        method: a learner; only learners can stop in the middle of a task without being disturbed.
        streams: one for each run.
        every: demos between two moments; the end of a task is always one.
        queries: most of each task.
    """
    if every < 1:
        raise InputError(f"every must be at least 1 demo, got {every}")
    info = StreamInfo.of(streams, seeds=range(len(streams)))
    asked = [ask_about([s.tasks[t] for s in streams], queries) for t in range(info.n_tasks)]
    method.begin(info)
    rows, demos, learned, few = [], [0], [], []

    def ask() -> None:
        rows.append(torch.stack([accuracy(method, questions) for questions in asked], dim=1))

    ask()
    for position in range(info.n_tasks):
        tasks = [s.tasks[position] for s in streams]
        length = len(tasks[0].demo_index)
        for start in range(0, length, every):
            stop = min(start + every, length)
            method.learn([_demos(task, start, stop) for task in tasks])
            demos.append(demos[-1] + stop - start)
            ask()
            if start == 0:
                few.append(len(rows) - 1)
        learned.append(len(rows) - 1)
    return Trace(
        accuracy=torch.stack(rows, dim=1),
        demos=torch.tensor(demos),
        learned=torch.tensor(learned),
        few=torch.tensor(few),
        tasks=tuple(t.name for t in streams[0].tasks),
    )


def _demos(task: FixedTask, start: int, stop: int) -> FixedTask:
    return replace(task, demo_index=task.demo_index[start:stop], demo_labels=task.demo_labels[start:stop])
