"""Hyper-parameter search for methods, on the validation part of a stream and nowhere else."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch
from torch import Tensor

from autocl.data.fixed import FixedStream
from autocl.errors import InputError
from autocl.methods.base import StreamInfo, get_method


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One combination of options and what it reached."""

    options: dict[str, Any]
    mean: float
    """Average accuracy after the last task, in percent, mean over runs."""
    std: float
    """Over runs, ddof 0."""


def search(
    name: str,
    grid: Mapping[str, Sequence[Any]],
    streams: Sequence[FixedStream],
    **options: Any,
) -> list[Trial]:
    """Try every combination of a grid; the best comes first.

    Args:
        name: of the method.
        grid: option -> values to try, e.g. {"iterations": [1, 2, 5], "rate": [3e-2, 3e-3]}.
        streams: one for each run, made with `part="validation"`; streams that ask test images are refused.
        **options: the same in every trial.

    Returns:
        One trial for each combination, best first; of equals, the one tried first.
    """
    for stream in streams:
        for task in stream.tasks:
            if task.query_set is not task.demo_set:
                raise InputError(
                    f"{stream.name} asks about {task.query_set.name}/{task.query_set.split}: make streams "
                    'for a search with part="validation", so that no test image takes part in the choice'
                )
    trials = []
    for values in product(*grid.values()):
        chosen = dict(zip(grid, values, strict=True))
        reached = 100 * _average(name, {**options, **chosen}, streams)
        trials.append(Trial(options=chosen, mean=float(reached.mean()), std=float(reached.std(correction=0))))
    return sorted(trials, key=lambda trial: -trial.mean)


def _average(name: str, options: dict[str, Any], streams: Sequence[FixedStream]) -> Tensor:
    """Average accuracy over tasks after the last one, float64 [R]."""
    method = get_method(name, **options)
    method.begin(StreamInfo.of(streams, seeds=range(len(streams))))
    for tasks in zip(*(s.tasks for s in streams), strict=True):
        method.learn(tasks)
    by_task = []
    for tasks in zip(*(s.tasks for s in streams), strict=True):
        index = torch.stack([t.query_index for t in tasks])
        labels = torch.stack([t.query_labels for t in tasks])
        answers = method.predict(tasks[0].query_set, index).argmax(-1)
        by_task.append((answers == labels).double().mean(1))
    return torch.stack(by_task).mean(0)
