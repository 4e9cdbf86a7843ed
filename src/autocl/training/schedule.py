"""Learning rates as functions of the step."""

import math

from autocl.training.recipe import Optimiser


def learning_rate(config: Optimiser, step: int, *, steps: int, width: int) -> float:
    """Learning rate of a step.

    Args:
        config: kind of schedule and its values.
        step: from 0.
        steps: length of the run.
        width: the model's, for the "transformer" schedule.

    Example:
        >>> paper = Optimiser(schedule="transformer", warmup=5000)
        >>> round(learning_rate(paper, 4999, steps=600_000, width=256), 7)
        0.0008839
    """
    s = step + 1
    if config.schedule == "transformer":
        warmup = max(config.warmup, 1)
        return float(width**-0.5 * min(s**-0.5, s * warmup**-1.5))
    rise = min(1.0, s / config.warmup) if config.warmup else 1.0
    if config.schedule == "constant":
        return config.lr * rise
    return config.lr * rise * 0.5 * (1.0 + math.cos(math.pi * step / steps))
