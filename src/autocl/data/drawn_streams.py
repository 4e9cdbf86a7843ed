"""Streams for meta-training, drawn at random: M tasks of N ways and K shots each, or tasks of random shape.

The latter are first written down as *slots*: numbers of a stream's classes, one for each demo. Returning
classes, unequal shots and interleaved tasks are all just arrangements of slots; labels and images follow.

Shape legend: B = streams, M = tasks, N = ways, K = shots, Q = queries of a task, J = slots of a stream (most
classes it can have), W = most classes of a task, T = demos of a task, L = demos of the stream, E = images
drawn per slot.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from autocl.data.draw import ClassIndex, IntArray, Rng, permutations, task_of
from autocl.data.stream import Task
from autocl.data.stream_config import RandomStreamConfig, StreamConfig

AnyConfig = StreamConfig | RandomStreamConfig
Sources = Mapping[int, ClassIndex]
"""What the sets that take part in a step offer, by their number."""


def plan_sets(rng: Rng, config: AnyConfig, step: int, n_sets: int) -> IntArray:
    """The set of each task of this step, [M]; for tasks of random shape the sets to draw from, increasing."""
    if isinstance(config, RandomStreamConfig):  # no order to keep: every step draws its sets afresh
        return np.sort(rng.permutation(n_sets)[: config.sets_per_step])
    tasks = config.tasks
    if config.min_tasks is not None:
        tasks = int(rng.integers(config.min_tasks, config.tasks + 1))
    if config.order == "mixture":
        return rng.integers(n_sets, size=tasks)
    # One set, two in alternation and three in rotation are one rule.
    return (np.arange(tasks) - step) % n_sets


def draw_streams(rng: Rng, config: AnyConfig, plan: IntArray, sources: Sources, streams: int) -> list[Task]:
    """Draw shape, classes, labels and images of B streams.

    Args:
        rng: the generator that decides.
        config: the shape of the streams, or the range of shapes.
        plan: from `plan_sets`.
        sources: of the sets named in it.
        streams: B.

    Returns:
        The tasks; their number and lengths are the same for all B streams.
    """
    if isinstance(config, RandomStreamConfig):
        return _draw_random(rng, config, plan, sources, streams)
    return _draw_regular(rng, config, plan, sources, streams)


def _draw_regular(
    rng: Rng, config: StreamConfig, order: IntArray, sources: Sources, streams: int
) -> list[Task]:
    M, N, K, Q = len(order), config.ways, config.shots, config.queries
    if config.min_shots is not None:
        K = int(rng.integers(config.min_shots, K + 1))
        config = replace(config, shots=K, min_shots=None)
    classes = np.empty((streams, M, N), np.int64)  # class numbers within each task's source
    for s in np.unique(order).tolist():
        at = np.flatnonzero(order == s)
        if config.classes == "disjoint":
            drawn = sources[s].classes(rng, streams, len(at) * N)
        else:
            drawn = sources[s].classes(rng, streams * len(at), N)
        classes[:, at] = drawn.reshape(streams, len(at), N)
    labels = permutations(rng, streams * M, N).reshape(streams, M, N)
    if config.scenario == "class":
        labels += N * np.arange(M)[:, None]
    turn = np.arange(Q) // N
    rows = np.arange(streams)[:, None]
    tasks = []
    for t, s in enumerate(order.tolist()):
        images = sources[s].images(rng, classes[:, t], config.images_per_class)  # [B, N, images_per_class]
        shown = permutations(rng, streams, N * K)
        demos = images[:, :, :K].reshape(streams, N * K)
        queries = images[:, :, K + config.first_shot :]
        # The place of a demo must not tell which class is asked: both orders are drawn, each on its own.
        asked = permutations(rng, streams, N)[:, np.arange(Q) % N]
        once = permutations(rng, streams, N) if config.first_shot else None
        tasks.append(
            task_of(
                source=s,
                demos=np.take_along_axis(demos, shown, axis=1),
                demo_labels=np.take_along_axis(labels[:, t], shown // K, axis=1),
                queries=queries[rows, asked, turn],
                query_labels=labels[rows, t, asked],
                one_shot=None if once is None else images[rows, once, K],
                one_shot_labels=None if once is None else labels[rows, t, once],
            )
        )
    return tasks


def _draw_random(
    rng: Rng, config: RandomStreamConfig, used: IntArray, sources: Sources, streams: int
) -> list[Task]:
    lengths = _draw_lengths(rng, config)
    slots, origin = _draw_slots(rng, config, lengths, streams)
    slots = _arrange(rng, slots, lengths, config.interleave_chance)
    images = _draw_images(rng, config, used, sources, origin, len(lengths))

    shown = slots[:, :, None] == np.arange(config.n_outputs)  # [B, L, J]
    appears = np.where(shown.any(axis=1), shown.argmax(axis=1), slots.shape[1])
    order = appears.argsort(axis=1, kind="stable").argsort(axis=1)  # [B, J]
    label_of = order % _draw_n_labels(rng, config, streams)
    before = np.take_along_axis(shown.cumsum(axis=1), slots[:, :, None], axis=2)[:, :, 0] - 1
    stream = np.arange(streams)[:, None]
    demos = images[stream, slots, config.query_images + before % config.max_shots]
    labels = label_of[stream, slots]

    tasks, ends = [], np.cumsum(lengths)
    for start, end in zip(ends - lengths, ends, strict=True):
        asked, turn = _ask(rng, shown[:, start:end].any(axis=1), config.queries)
        tasks.append(
            task_of(
                source=int(used[0]) if len(used) == 1 else -1,
                demos=demos[:, start:end],
                demo_labels=labels[:, start:end],
                queries=images[stream, asked, turn % config.query_images],
                query_labels=label_of[stream, asked],
            )
        )
    return tasks


def _draw_lengths(rng: Rng, config: RandomStreamConfig) -> IntArray:
    """Demos of each task, [M]: a plan with `ways` classes of `shots` demos in each task would fit."""
    M = int(rng.integers(1, config.max_tasks + 1))
    lengths, left = np.empty(M, np.int64), config.n_outputs
    for m in range(M):
        # Later tasks keep room for one new class each.
        ways = min(int(rng.integers(1, config.max_ways + 1)), left - (M - 1 - m))
        left -= ways
        lengths[m] = ways * rng.integers(1, config.max_shots + 1)
    return lengths


def _draw_slots(
    rng: Rng, config: RandomStreamConfig, lengths: IntArray, streams: int
) -> tuple[IntArray, IntArray]:
    """Slots of all demos [B, L], task by task and class by class; and the task that adds each slot [B, J]."""
    J, W = config.n_outputs, config.max_ways
    fewest = -(-lengths // config.max_shots)
    seen = np.zeros(streams, np.int64)
    origin = np.zeros((streams, J), np.int64)
    rank = np.arange(W)
    parts = []
    for m, length in enumerate(lengths.tolist()):
        room = J - seen - fewest[m + 1 :].sum()
        most = np.minimum(min(W, length), room)
        ways = rng.integers(fewest[m], most + 1)
        again = rng.random(streams) < config.return_chance
        old = np.where(again, np.minimum(rng.integers(1, ways + 1), seen), 0)
        known = np.where(np.arange(J) < seen[:, None], rng.random((streams, J)), np.inf)
        new_members = (seen - old)[:, None] + rank
        members = np.where(rank < old[:, None], known.argsort(axis=1)[:, :W], new_members)
        shots = _draw_shots(rng, config, ways, length)
        parts.append(np.repeat(members.reshape(-1), shots.reshape(-1)).reshape(streams, length))
        new = (np.arange(J) >= seen[:, None]) & (np.arange(J) < (seen + ways - old)[:, None])
        origin[new] = m
        seen = seen + ways - old
    return np.concatenate(parts, axis=1), origin


def _draw_shots(rng: Rng, config: RandomStreamConfig, ways: IntArray, length: int) -> IntArray:
    """Demos of each class of a task, [B, W]: 1 to max_shots for the first `ways`, 0 for others, sum = length.

    Every class has max_shots - 1 tickets beside its sure demo, and the task's demos are drawn among the
    tickets of all its classes, some classes being luckier than others: from nearly equal to very unequal.
    """
    W, extra = config.max_ways, config.max_shots - 1
    streams = len(ways)
    spread = rng.uniform(0.0, 2.0, (streams, 1))
    luck = np.exp(spread * rng.standard_normal((streams, W)))
    active = np.arange(W) < ways[:, None]
    delay = rng.exponential(size=(streams, W, extra)) / luck[:, :, None]
    delay[~active] = np.inf
    position = delay.reshape(streams, W * extra).argsort(axis=1).argsort(axis=1)
    drawn = (position < (length - ways)[:, None]).reshape(streams, W, extra)
    shots: IntArray = active + drawn.sum(axis=2)
    return shots


def _arrange(rng: Rng, slots: IntArray, lengths: IntArray, interleave: float) -> IntArray:
    """Shuffle the demos within each task, and across the tasks of a stream that are interleaved: [B, L]."""
    apart = rng.random((len(slots), len(lengths))) >= interleave
    group = np.repeat(apart.cumsum(axis=1), lengths, axis=1)
    return np.take_along_axis(slots, (group + rng.random(slots.shape)).argsort(axis=1), axis=1)


def _draw_images(
    rng: Rng, config: RandomStreamConfig, used: IntArray, sources: Sources, origin: IntArray, n_tasks: int
) -> IntArray:
    """Images of the class behind every slot, [B, J, E]: first those to be asked, then those to be shown."""
    streams, J = origin.shape
    by_task = used[rng.integers(len(used), size=(streams, n_tasks))]
    mixed = rng.random((streams, 1)) < config.mix_chance
    by_task = np.where(mixed, by_task, by_task[:, :1])
    source = np.take_along_axis(by_task, origin, axis=1)
    images = np.empty((streams, J, config.images_per_class), np.int64)
    for s in used.tolist():
        here = source == s
        classes = sources[s].classes(rng, streams, J)
        images[here] = sources[s].images(rng, classes[here], config.images_per_class)
    return images


def _draw_n_labels(rng: Rng, config: RandomStreamConfig, streams: int) -> IntArray:
    """Number of labels that the classes of each stream share, [B, 1]."""
    if config.share_chance == 0:  # draws nothing: streams of such configs stay what they were
        return np.full((streams, 1), config.n_outputs)
    shared = rng.random((streams, 1)) < config.share_chance
    few = rng.integers(2, max(config.max_ways, 2) + 1, size=(streams, 1))
    return np.where(shared, few, config.n_outputs)


def _ask(rng: Rng, present: np.ndarray, queries: int) -> tuple[IntArray, IntArray]:
    """The slot that each query asks about and how often it was asked before, both [B, Q]."""
    order = np.where(present, rng.random(present.shape), np.inf).argsort(axis=1)
    ways = present.sum(axis=1)[:, None]
    number = np.arange(queries)
    return np.take_along_axis(order, number % ways, axis=1), number // ways
