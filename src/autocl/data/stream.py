"""Task and Stream: index tensors and labels, the same from the sampler to evaluation. No pixels, no model.

Shape legend: B = streams side by side, M = tasks of a stream, T = demos of a task, Q = queries of a task,
R = all training images of a task, N = ways, U = distinct images of a batch.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from autocl.data.imageset import LabelledSet
from autocl.data.stream_config import Scenario
from autocl.errors import InputError


@dataclass(frozen=True, kw_only=True, eq=False)
class Task:
    """The same position of all B streams: what is shown there and what is asked about it.

    Images are numbers, int64. In streams drawn for meta-training they are positions in `Stream.pool`, so that
    each distinct image is encoded once; elsewhere rows of `demo_set` and `query_set`.
    """

    name: str = ""
    source: int = -1
    """Image set (position in the sampler's list) that this task was drawn from; -1: several."""
    demos: Tensor
    """[B, T], in the order they are shown."""
    demo_labels: Tensor
    """[B, T]."""
    queries: Tensor
    """[B, Q]. Never an image that is a demo of the same task; nor of the same stream, unless its tasks draw
    their classes independently of each other (the paper)."""
    query_labels: Tensor
    """[B, Q]; -1 where a stream has fewer queries than the longest beside it and its last one is repeated."""
    one_shot: Tensor | None = None
    """[B, N]: one further demo per class, for the 1-shot auxiliary term; None when not asked for."""
    one_shot_labels: Tensor | None = None
    """[B, N]."""
    train: Tensor | None = None
    """[B, R], rows of demo_set: every image a method that trains on all data may use; never a query. None:
    there are no others than the demos."""
    train_labels: Tensor | None = None
    """[B, R]."""
    demo_set: LabelledSet | None = None
    query_set: LabelledSet | None = None

    @property
    def sets(self) -> tuple[LabelledSet, LabelledSet]:
        """Image sets of demos and queries; an InputError for tasks whose images are positions in a pool."""
        if self.demo_set is None or self.query_set is None:
            raise InputError(
                "this task's images are positions in a pool: take its stream's rows of image sets with "
                "Stream.on_sets(sampler.sets)"
            )
        return self.demo_set, self.query_set

    def map(self, change: Callable[[Tensor], Tensor]) -> "Task":
        """The task with every tensor changed."""
        changed: dict[str, Any] = {n: change(t) for n, t in vars(self).items() if isinstance(t, Tensor)}
        return replace(self, **changed)

    def renumber(self, change: Callable[[Tensor], Tensor]) -> "Task":
        """The task with its images, not its labels, numbered otherwise."""
        one_shot = None if self.one_shot is None else change(self.one_shot)
        return replace(self, demos=change(self.demos), queries=change(self.queries), one_shot=one_shot)

    def shown(self, start: int, stop: int) -> "Task":
        """The same with demos start, …, stop - 1 only."""
        return replace(self, demos=self.demos[:, start:stop], demo_labels=self.demo_labels[:, start:stop])

    def asked(self, most: int | None) -> "Task":
        """The same with at most so many queries, spread evenly over those of each stream.

        Queries that are sorted by class are so spread over the classes.
        """
        Q = self.queries.shape[1]
        if most is not None and most < 1:
            raise InputError(f"queries must be at least 1, got {most}")
        if most is None or most >= Q:
            return self
        number, known = torch.arange(most), (self.query_labels >= 0).sum(1, keepdim=True)
        place = torch.where(known > most, number * known // most, number.minimum(known - 1))
        labels = self.query_labels.gather(1, place).masked_fill(number >= known, -1)
        return replace(self, queries=self.queries.gather(1, place), query_labels=labels)


@dataclass(frozen=True, kw_only=True, eq=False)
class Stream:
    """B streams of M tasks, side by side. Lengths may differ between tasks, not between the B streams."""

    tasks: tuple[Task, ...]
    n_outputs: int
    """Labels lie in [0, n_outputs)."""
    name: str = ""
    scenario: Scenario = "domain"
    pool: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.int64))
    """int64 [U]: the distinct images of the batch, each encoded once, grouped by set. Value = offset of its
    set in the sampler's concatenated index space + row in that set. Empty: tasks name their own sets."""
    pool_classes: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.int64))
    """int64 [U]: class of each pool image, unique over all sets (for the prototype loss)."""
    step: int = 0
    """The sampler's step that this is, or is a part of."""

    def __len__(self) -> int:
        """B."""
        return len(self.tasks[0].demos)

    def part(self, lo: int, hi: int) -> "Stream":
        """Streams lo, …, hi - 1."""
        return replace(self, tasks=tuple(task.map(lambda t: t[lo:hi]) for task in self.tasks))

    def to(self, device: torch.device) -> "Stream":
        """The index tensors on a device; the pool itself stays where the pixels are."""
        if device.type == "cpu":
            return self
        return replace(
            self,
            pool_classes=self.pool_classes.to(device),
            tasks=tuple(task.map(lambda t: t.to(device)) for task in self.tasks),
        )

    def on_sets(self, sets: Sequence[LabelledSet]) -> "Stream":
        """The same streams with images as rows of the sets they were drawn from, for evaluation.

        Args:
            sets: of the sampler that drew the streams, each task from one of them.
        """
        offsets = [0, *accumulate(int(s.starts[-1]) for s in sets)]
        tasks = []
        for task in self.tasks:
            if task.source < 0:
                raise InputError("a task that mixes image sets has no rows in one of them: use its pool")
            images, rows = sets[task.source], self.pool - offsets[task.source]
            name = task.name or images.name
            moved = task.renumber(rows.__getitem__)
            tasks.append(replace(moved, name=name, demo_set=images, query_set=images))
        return replace(self, tasks=tuple(tasks), pool=self.pool[:0], pool_classes=self.pool_classes[:0])


def side_by_side(streams: Sequence[Stream]) -> Stream:
    """Put streams of the same form beside each other.

    Args:
        streams: of the same scenario, outputs, number of tasks and image sets at every position. Numbers of
            queries may differ: shorter rows are filled up, see `Task.query_labels`.

    Example:
        >>> images = torch.zeros(1, 4, dtype=torch.int64)
        >>> task = Task(demos=images, demo_labels=images, queries=images, query_labels=images)
        >>> len(side_by_side([Stream(tasks=(task,), n_outputs=2)] * 3))
        3
    """
    if not streams:
        raise InputError("there is no stream to learn: give at least one")
    if len(streams) == 1:
        return streams[0]
    forms = {(s.scenario, s.n_outputs, len(s.tasks)) for s in streams}
    if len(forms) > 1:
        raise InputError(
            f"streams that go side by side must agree on scenario, outputs and tasks, got {sorted(forms)}: "
            "run them one after another"
        )
    positions = zip(*(s.tasks for s in streams), strict=True)
    return replace(streams[0], tasks=tuple(_beside(tasks) for tasks in positions))


def _beside(tasks: Sequence[Task]) -> Task:
    """The same position of several streams, as one task."""
    if len({(id(t.demo_set), id(t.query_set)) for t in tasks}) > 1:
        names = sorted({f"{s.name}/{s.split}" for t in tasks for s in t.sets})
        raise InputError(f"streams side by side must use the same image sets, got {names}: run them apart")
    values: dict[str, Any] = {}
    for name in (name for name, value in vars(tasks[0]).items() if isinstance(value, Tensor)):
        parts = [getattr(t, name) for t in tasks]
        if name in ("queries", "query_labels"):
            longest = max(p.shape[1] for p in parts)
            parts = [_filled(p, longest, labels=name == "query_labels") for p in parts]
        elif len({p.shape[1] for p in parts}) > 1:
            raise InputError(
                f"streams side by side need equally many {name} in every task, got "
                f"{[p.shape[1] for p in parts]} in {tasks[0].name!r}: run them one after another"
            )
        values[name] = torch.cat(parts)
    return replace(tasks[0], **values)


def _filled(rows: Tensor, length: int, *, labels: bool) -> Tensor:
    """Rows [B, Q] of the given length: images are repeated, labels are -1."""
    missing = length - rows.shape[1]
    fill = rows.new_full((len(rows), missing), -1) if labels else rows[:, -1:].expand(-1, missing)
    return torch.cat([rows, fill], dim=1)
