"""Hyper-parameter search for methods, on the validation part of a stream and nowhere else."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from autocl.baselines.base import Method
from autocl.data.stream import Stream
from autocl.errors import InputError
from autocl.passage import run_streams


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One combination of options and what it reached."""

    options: dict[str, Any]
    mean: float
    """Average accuracy after the last task, in percent, mean over runs."""
    std: float
    """Over runs, ddof 0."""


def search(
    make: Callable[..., Method], grid: Mapping[str, Sequence[Any]], streams: Sequence[Stream]
) -> list[Trial]:
    """Try every combination of a grid; the best comes first.

    Args:
        make: the method with options of the grid.
        grid: option -> values to try, e.g. {"iterations": [1, 2, 5], "rate": [3e-2, 3e-3]}.
        streams: one for each run, made with `part="validation"`; streams that ask test images are refused.

    Returns:
        One trial for each combination, best first; of equals, the one tried first.
    """
    for stream in streams:
        for task in stream.tasks:
            demo_set, query_set = task.sets
            if query_set is not demo_set:
                raise InputError(
                    f"{stream.name} asks about {query_set.name}/{query_set.split}: make streams "
                    'for a search with part="validation", so that no test image takes part in the choice'
                )
    trials = []
    for values in product(*grid.values()):
        chosen = dict(zip(grid, values, strict=True))
        reached = 100 * run_streams(make(**chosen), streams).matrix.average()
        trials.append(Trial(options=chosen, mean=float(reached.mean()), std=float(reached.std(correction=0))))
    return sorted(trials, key=lambda trial: -trial.mean)
