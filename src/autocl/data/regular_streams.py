"""Regular streams, as `StreamConfig` describes them: M tasks of N ways and K shots.

Shape legend: B = streams, M = tasks, N = ways, K = shots, Q = queries of a task.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from autocl.data.draw import ClassIndex, IntArray, permutations, task_of
from autocl.data.stream import Task
from autocl.data.stream_config import StreamConfig


def plan_sets(rng: np.random.Generator, config: StreamConfig, step: int, n_sets: int) -> IntArray:
    """The set of each task of this step, [M]; M is drawn here where the configuration leaves it open."""
    tasks = config.tasks
    if config.min_tasks is not None:
        tasks = int(rng.integers(config.min_tasks, config.tasks + 1))
    turn = np.arange(tasks)
    if config.order == "mixture":
        return rng.integers(n_sets, size=tasks)
    # One set, two in alternation and three in rotation are one rule.
    return (turn - step) % n_sets


def draw_streams(
    rng: np.random.Generator,
    config: StreamConfig,
    order: IntArray,
    sources: Mapping[int, ClassIndex],
    streams: int,
) -> list[Task]:
    """Draw classes, labels and images of B streams.

    Args:
        rng: the generator that decides.
        config: the shape of the streams.
        order: int64 [M], the set of each task.
        sources: what the sets named in `order` offer.
        streams: B.

    Returns:
        The M tasks.
    """
    config = replace(config, tasks=len(order), min_tasks=None)
    if config.min_shots is not None:
        shots = int(rng.integers(config.min_shots, config.shots + 1))
        config = replace(config, shots=shots, min_shots=None)
    N, K, Q = config.ways, config.shots, config.queries
    classes = _draw_classes(rng, config, order, sources, streams)
    labels = _draw_labels(rng, config, streams)
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


def _draw_classes(
    rng: np.random.Generator,
    config: StreamConfig,
    order: IntArray,
    sources: Mapping[int, ClassIndex],
    streams: int,
) -> IntArray:
    """Class numbers within each task's source, [B, M, N]."""
    N = config.ways
    classes = np.empty((streams, config.tasks, N), np.int64)
    for s in np.unique(order).tolist():
        at = np.flatnonzero(order == s)
        if config.classes == "disjoint":
            drawn = sources[s].classes(rng, streams, len(at) * N)
        else:
            drawn = sources[s].classes(rng, streams * len(at), N)
        classes[:, at] = drawn.reshape(streams, len(at), N)
    return classes


def _draw_labels(rng: np.random.Generator, config: StreamConfig, streams: int) -> IntArray:
    """Labels of the classes of every task, [B, M, N]."""
    M, N = config.tasks, config.ways
    labels = permutations(rng, streams * M, N).reshape(streams, M, N)
    if config.scenario == "class":
        labels += N * np.arange(M)[:, None]
    return labels
