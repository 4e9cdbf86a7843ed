"""A stream taken boundary by boundary: the one loop of evaluation, Split-X validation, tour and weight films.

Meta-training and its validation on drawn streams have their own, with gradients: `autocl.objective`.

Shape legend: B = streams (runs) side by side, M = tasks, Q = queries of a task, P = moments of a passage.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from autocl.baselines.base import Cost, Method, StreamInfo
from autocl.baselines.incontext import InContext
from autocl.data.stream import Stream, Task, side_by_side
from autocl.errors import InputError
from autocl.learner import Learner
from autocl.matrix import TransferMatrix


@dataclass(frozen=True, kw_only=True, eq=False)
class Moment:
    """A moment of a passage: before the first demo, within a task, or at a boundary."""

    task: int
    """Position of the task that was shown last, from 0; -1 before the first demo."""
    demos: int
    """Demos seen so far."""
    at_boundary: bool
    """Whether the last demo of a task was just shown."""
    accuracy: Tensor
    """float64 [B, M] in [0, 1]: every task at this moment; NaN where nothing was asked."""


def passage(
    method: Method | Learner,
    stream: Stream,
    *,
    seeds: Sequence[int] | None = None,
    queries: int | None = None,
    every: int | None = None,
    forward: bool = False,
    ask: bool = True,
) -> Iterator[Moment]:
    """Learn a stream task by task; at each boundary ask about every task learned so far.

    The method may be looked at between two moments: it stands where the last one says.

    Args:
        method: begun afresh here; a learner goes through the stream in context.
        stream: B streams side by side.
        seeds: one for each of the B streams; default: 0, 1, ….
        queries: ask at most so many of each task, spread evenly over its test images; default: all.
        every: pause after so many demos, too, and once before the first; only for methods that can stop in
            the middle of a task without being disturbed, as learners can. Default: at boundaries only.
        forward: ask about tasks that are still to come, too.
        ask: False: ask nothing, only pause.

    Example:
        >>> [m.accuracy for m in passage(method, stream) if m.at_boundary]                 # doctest: +SKIP
    """
    if every is not None and every < 1:
        raise InputError(f"every must be at least 1 demo, got {every}")
    method = InContext(method) if isinstance(method, Learner) else method
    info = StreamInfo.of(stream, seeds=range(len(stream)) if seeds is None else seeds)
    asked = [task.asked(queries) for task in stream.tasks]

    def moment(task: int, demos: int, at_boundary: bool) -> Moment:
        values = torch.full((len(stream), info.n_tasks), torch.nan, dtype=torch.float64)
        for t in range(info.n_tasks if forward else task + 1) if ask else ():
            values[:, t] = accuracy(method, asked[t])
        return Moment(task=task, demos=demos, at_boundary=at_boundary, accuracy=values)

    method.begin(info)
    seen = 0
    if every is not None:
        yield moment(-1, 0, False)
    for position, task in enumerate(stream.tasks):
        length = task.demos.shape[1]
        for start in range(0, length, every or length):
            stop = min(start + (every or length), length)
            method.learn(task if stop - start == length else task.shown(start, stop))
            yield moment(position, seen + stop, stop == length)
        seen += length


def accuracy(method: Method, task: Task) -> Tensor:
    """Share of right answers to a task's queries in each run, float64 [B]."""
    index, (_, images) = task.queries, task.sets
    # Queries common to all runs are given once, so that their features are looked up once.
    common = bool((index == index[:1]).all())
    answers = method.predict(images, index[0] if common else index).argmax(-1)
    right = (answers == task.query_labels).sum(1, dtype=torch.float64)
    return right / (task.query_labels >= 0).sum(1)


@dataclass(frozen=True, kw_only=True)
class StreamResult:
    """Accuracies and cost of a method over B streams."""

    matrix: TransferMatrix
    """Accuracies in [0, 1], [B, M, M]; NaN above the diagonal unless asked for."""
    cost: Cost
    """Cost of one run."""
    seconds: float
    """Wall time of all runs together, learning and asking."""


def run_streams(
    method: Method | Learner,
    streams: Stream | Sequence[Stream],
    *,
    seeds: Sequence[int] | None = None,
    queries: int | None = None,
    forward: bool = False,
) -> StreamResult:
    """Take a method through streams and write down the transfer matrix of each.

    As many go side by side as the method allows; results do not depend on how many that are.

    Args:
        method: begun afresh here; a learner goes through the streams in context.
        streams: of the same form, one for each run.
        seeds: one for each run; default: 0, 1, ….
        queries: ask at most so many of each task; default: all.
        forward: ask about tasks that are still to come, too.
    """
    method = InContext(method) if isinstance(method, Learner) else method
    stream = streams if isinstance(streams, Stream) else side_by_side(streams)
    seeds = range(len(stream)) if seeds is None else seeds
    if len(seeds) != len(stream):
        raise InputError(f"got {len(stream)} streams for {len(seeds)} seeds: give one seed for each stream")
    started = time.perf_counter()
    matrices = []
    for lo in range(0, len(stream), method.side_by_side):
        hi = min(lo + method.side_by_side, len(stream))
        moments = passage(method, stream.part(lo, hi), seeds=seeds[lo:hi], queries=queries, forward=forward)
        matrices.append(torch.stack([m.accuracy for m in moments], dim=1))
    seconds = time.perf_counter() - started
    return StreamResult(matrix=TransferMatrix(torch.cat(matrices)), cost=method.cost(), seconds=seconds)
