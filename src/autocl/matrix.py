"""TransferMatrix: one object for what a learner knows of each task at each boundary.

Shape legend: M = tasks of a stream. Rows are boundaries, columns the tasks that are asked about there.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autocl.errors import InputError


@dataclass(frozen=True, eq=False)
class TransferMatrix:
    """Accuracies (or losses) [..., boundaries M, tasks M]; NaN where nothing was asked.

    Leading axes (runs, streams) pass through every reduction. A reduction that needs an entry nobody asked
    for gives NaN instead of a number that means something else; so do those about earlier tasks when M = 1.
    docs/metrics.md has the formulas and where they come from.

    Example:
        >>> m = TransferMatrix(torch.tensor([[0.9, 0.2], [0.7, 0.8]]))
        >>> round(float(m.average()), 3), round(float(m.backward_transfer()), 3)
        (0.75, -0.2)
    """

    values: Tensor

    def __post_init__(self) -> None:
        shape = list(self.values.shape)
        if len(shape) < 2 or shape[-1] != shape[-2] or shape[-1] == 0 or not self.values.is_floating_point():
            raise InputError(
                f"a transfer matrix needs floating values [..., M, M] with at least one task, got "
                f"{self.values.dtype} {shape}"
            )

    @property
    def tasks(self) -> int:
        """M."""
        return self.values.shape[-1]

    @property
    def diagonal(self) -> Tensor:
        """Each task at its own boundary, [..., M]."""
        return self.values.diagonal(dim1=-2, dim2=-1)

    @property
    def last(self) -> Tensor:
        """Each task after the whole stream, [..., M]."""
        return self.values[..., -1, :]

    def average(self) -> Tensor:
        """Average accuracy: the mean of the last row. Tasks weigh alike, whatever their number of queries."""
        return self.last.mean(-1)

    def learning_accuracy(self) -> Tensor:
        """Mean accuracy of each task right after it was learned: the mean of the diagonal."""
        return self.diagonal.mean(-1)

    def backward_transfer(self) -> Tensor:
        """Last row minus diagonal, over the tasks before the last. Negative: later tasks did harm."""
        return (self.last - self.diagonal)[..., :-1].mean(-1)

    def forgetting(self) -> Tensor:
        """Best value at any earlier boundary minus the last, over the tasks before the last."""
        if self.tasks == 1:
            return self.values.new_full(self.values.shape[:-2], math.nan)
        earlier = self.values[..., :-1, :-1]
        best = torch.where(earlier.isnan(), -math.inf, earlier).amax(-2)
        # A task whose own boundary was not asked has no best value to compare with.
        best = torch.where(self.diagonal[..., :-1].isnan(), math.nan, best)
        return (best - self.last[..., :-1]).mean(-1)

    def forward_transfer(self, baseline: Tensor | float) -> Tensor:
        """Forward transfer: entry (i - 1, i) minus the baseline of task i, i > 1.

        Args:
            baseline: accuracy without any demo, [..., M] or one number; chance is the usual choice.
        """
        before = self.values.diagonal(offset=1, dim1=-2, dim2=-1)
        base = torch.as_tensor(baseline, dtype=self.values.dtype, device=self.values.device)
        base = base.expand(*self.values.shape[:-2], self.tasks)[..., 1:]
        return (before - base).mean(-1)

    def seen(self) -> Tensor:
        """The curve over the stream: at each boundary the mean over the tasks learned so far, [..., M]."""
        lower = self.values.new_ones(self.tasks, self.tasks).tril()
        return torch.where(lower > 0, self.values, 0).sum(-1) / lower.sum(-1)

    def mean(self) -> "TransferMatrix":
        """The mean over all leading axes (runs), for pictures."""
        return TransferMatrix(self.values.flatten(0, -3).mean(0) if self.values.dim() > 2 else self.values)

    def to_lists(self) -> Any:
        """Nested lists for JSON, None where nothing was asked."""
        values = self.values.detach().cpu().numpy()
        return np.where(np.isnan(values), np.array(None), values).tolist()

    @staticmethod
    def from_lists(lists: Any) -> "TransferMatrix":
        """Inverse of `to_lists`, in float64."""
        return TransferMatrix(torch.from_numpy(np.array(lists, np.float64)))


def learning_acceleration(few: Tensor) -> Tensor:
    """Does the learner learn faster with experience?

    Args:
        few: accuracy on each task after the first few demos of it, at its place in the stream, [..., M].

    Returns:
        The mean over i > 1 of few_i - few_1, [...].
    """
    return (few[..., 1:] - few[..., :1]).mean(-1)


def stability_gap(trace: Tensor, learned: Tensor) -> Tensor:
    """The worst moment between boundaries: how far a learned task falls, at any time, below its own boundary.

    Args:
        trace: accuracy on every task, asked many times during the stream, [..., times, M].
        learned: for each task the row of `trace` that is its boundary, int64 [M], rising.

    Returns:
        Mean over the tasks before the last of (at the boundary - minimum after it), [...].
    """
    gaps = [
        trace[..., int(row), task] - trace[..., int(row) + 1 :, task].amin(-1)
        for task, row in enumerate(learned[:-1])
    ]
    if not gaps:
        return trace.new_full(trace.shape[:-2], math.nan)
    return torch.stack(gaps, -1).mean(-1)
