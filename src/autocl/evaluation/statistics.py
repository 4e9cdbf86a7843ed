"""Mean, deviation and interval over runs, and what to say of our number beside a published one."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from autocl.errors import InputError
from autocl.evaluation.published import Published
from autocl.matrix import TransferMatrix

Z95 = 1.959964
"""Standard normal quantile of a two-sided 95 % interval."""
NEGLIGIBLE = 0.5
"""Points of accuracy below which a difference is called none, however small the deviations: the paper prints
one decimal, and its last few runs would move its means by as much."""

Status = Literal["reproduced", "better", "worse", "higher", "lower", "not comparable", "N.A.", "–"]
"""–: the paper has no such number. higher, lower: where more is not better, because the row is there to show
forgetting."""


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Mean, deviation and interval of one number over runs."""

    mean: float
    std: float
    """ddof 0, as the paper's."""
    interval: float
    """Half the width of the 95 % interval of the mean, from the deviation with ddof 1; NaN for one run."""
    runs: int


def summarise(values: Sequence[float]) -> Summary:
    """Summarise one number over runs.

    Example:
        >>> s = summarise([1.0, 2.0, 3.0])
        >>> round(s.mean, 2), round(s.std, 2), round(s.interval, 2)
        (2.0, 0.82, 1.13)
    """
    if not values:
        raise InputError("there is nothing to summarise: no run was made")
    x = np.asarray(values, dtype=np.float64)
    half = Z95 * float(x.std(ddof=1)) / math.sqrt(len(x)) if len(x) > 1 else math.nan
    return Summary(mean=float(x.mean()), std=float(x.std()), interval=half, runs=len(x))


def metrics(matrix: TransferMatrix) -> dict[str, Summary]:
    """The continual-learning metrics of matrices [R, M, M], in percent over runs; see docs/metrics.md.

    Those that need entries nobody asked for are left out; forward transfer is counted from zero here.
    """
    found = {
        "average accuracy": matrix.average(),
        "learning accuracy": matrix.learning_accuracy(),
        "backward transfer": matrix.backward_transfer(),
        "forgetting": matrix.forgetting(),
        "accuracy before learning": matrix.forward_transfer(0.0),
    }
    return {
        name: summarise((100 * values).flatten().tolist())
        for name, values in found.items()
        if not bool(values.isnan().any())
    }


def compare(ours: Summary, published: Published) -> Status:
    """Reproduced, better or worse, in percent.

    Reproduced: the difference is negligible, or within 1.96 standard errors of it, from both deviations and
    numbers of runs; a published mean without deviation is taken as exact.
    """
    difference = ours.mean - published.mean
    variance = ours.std**2 / ours.runs + (published.std or 0.0) ** 2 / published.runs
    if abs(difference) <= max(NEGLIGIBLE, Z95 * math.sqrt(variance)):
        return "reproduced"
    return "better" if difference > 0 else "worse"
