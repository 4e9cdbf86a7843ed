"""Take any method through streams and write down what it knows at every boundary.

Shape legend: R = runs side by side, M = tasks, Q = queries of a task.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from autocl.baselines.base import Cost, Method, StreamInfo
from autocl.data.fixed import FixedStream, FixedTask
from autocl.data.imageset import ImageSet
from autocl.errors import InputError
from autocl.matrix import TransferMatrix


@dataclass(frozen=True, kw_only=True)
class Taken:
    """One passage of R runs."""

    matrix: TransferMatrix
    """Accuracies in [0, 1], [R, M, M]; NaN above the diagonal unless asked for."""
    cost: Cost
    seconds: float
    """Wall time of all R runs together, learning and asking."""


@dataclass(frozen=True, kw_only=True)
class Questions:
    """The queries of one task position, for all runs."""

    images: ImageSet
    index: Tensor
    """[Q] when all runs ask the same, else [R, Q], short rows filled up with their last entry."""
    labels: Tensor
    """[R, Q], -1 where a row was filled up."""


def take_through(
    method: Method,
    streams: Sequence[FixedStream],
    *,
    seeds: Sequence[int] | None = None,
    queries: int | None = None,
    forward: bool = False,
) -> Taken:
    """Learn the streams side by side; at each boundary ask about every task learned so far.

    Args:
        method: begun afresh here.
        streams: one for each run, all of the same form.
        seeds: one for each run; default: 0, 1, ….
        queries: ask at most so many of each task, spread evenly over its test images; default: all.
        forward: ask about tasks that are still to come, too.
    """
    if queries is not None and queries < 1:
        raise InputError(f"queries must be at least 1, got {queries}")
    info = StreamInfo.of(streams, seeds=range(len(streams)) if seeds is None else seeds)
    started = time.perf_counter()
    asked = [ask_about([s.tasks[t] for s in streams], queries) for t in range(info.n_tasks)]
    values = torch.full((len(streams), info.n_tasks, info.n_tasks), torch.nan, dtype=torch.float64)
    method.begin(info)
    for boundary in range(info.n_tasks):
        method.learn([s.tasks[boundary] for s in streams])
        for task in range(info.n_tasks if forward else boundary + 1):
            values[:, boundary, task] = accuracy(method, asked[task])
    seconds = time.perf_counter() - started
    return Taken(matrix=TransferMatrix(values), cost=method.cost(), seconds=seconds)


def ask_about(tasks: Sequence[FixedTask], queries: int | None = None) -> Questions:
    """Collect the queries of the same position of all runs."""
    if any(t.query_set is not tasks[0].query_set for t in tasks):
        names = sorted({f"{t.query_set.name}/{t.query_set.split}" for t in tasks})
        raise InputError(f"runs side by side must ask about one image set, got {names}: run them apart")
    picks = [_spread(len(t.query_index), queries) for t in tasks]
    index = [t.query_index[p] for t, p in zip(tasks, picks, strict=True)]
    labels = [t.query_labels[p] for t, p in zip(tasks, picks, strict=True)]
    longest = max(len(i) for i in index)
    filled = torch.stack([torch.cat([i, i[-1:].expand(longest - len(i))]) for i in index])
    known = torch.stack([torch.cat([y, y.new_full((longest - len(y),), -1)]) for y in labels])
    same = bool((filled == filled[0]).all())
    return Questions(images=tasks[0].query_set, index=filled[0] if same else filled, labels=known)


def accuracy(method: Method, asked: Questions) -> Tensor:
    """Share of right answers of each run, float64 [R]."""
    answers = method.predict(asked.images, asked.index).argmax(-1)
    right = (answers == asked.labels).sum(1, dtype=torch.float64)
    return right / (asked.labels >= 0).sum(1)


def _spread(n: int, queries: int | None) -> Tensor:
    """Positions of at most `queries` of n rows, evenly spread, and so over the classes they are sorted by."""
    if queries is None or queries >= n:
        return torch.arange(n)
    return torch.arange(queries) * n // queries
