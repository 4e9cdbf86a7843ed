"""StreamBatch: a batch of streams as index tensors. No pixels, no model.

Shape legend: B = streams, M = tasks of a stream, T = demos of a task, Q = queries of a task, N = ways,
U = distinct images of the batch.
"""

from dataclasses import dataclass, fields, replace
from typing import Any

import torch


@dataclass(frozen=True, kw_only=True)
class Task:
    """The same position of all B streams: what is shown there and what is asked about it."""

    source: int
    """Which image set (position in the sampler's list) this task was drawn from; -1 = a mixture."""
    demos: torch.Tensor
    """int64 [B, T], positions in `StreamBatch.pool`, in the order they are shown."""
    demo_labels: torch.Tensor
    """int64 [B, T]."""
    queries: torch.Tensor
    """int64 [B, Q], positions in `StreamBatch.pool`. Never an image that is a demo of the same task; nor of
    the same stream, unless its tasks draw their classes independently of each other (the paper)."""
    query_labels: torch.Tensor
    """int64 [B, Q]."""
    first: torch.Tensor | None = None
    """int64 [B, N]: one further demo per class, for the 1-shot auxiliary term; None when not asked for."""
    first_labels: torch.Tensor | None = None
    """int64 [B, N]."""


@dataclass(frozen=True, kw_only=True)
class StreamBatch:
    """B streams of M tasks. Lengths may differ between tasks, not between the streams of a batch."""

    pool: torch.Tensor
    """int64 [U]: the distinct images of the batch, each encoded once, grouped by set. Value = offset of its
    set in the sampler's concatenated index space + row in that set."""
    pool_classes: torch.Tensor
    """int64 [U]: class of each pool image, unique over all sets (for the prototype loss)."""
    tasks: tuple[Task, ...]
    n_outputs: int
    """Labels lie in [0, n_outputs)."""
    step: int = 0
    """The sampler's step that this is, or is a part of."""

    def to(self, device: torch.device) -> "StreamBatch":
        """The index tensors on a device; the pool itself stays where the pixels are."""
        if device.type == "cpu":
            return self
        return replace(
            self,
            pool_classes=self.pool_classes.to(device),
            tasks=tuple(_move(task, device) for task in self.tasks),
        )


def _move(task: Task, device: torch.device) -> Task:
    values: dict[str, Any] = {f.name: getattr(task, f.name) for f in fields(task)}
    for name, value in values.items():
        if isinstance(value, torch.Tensor):
            values[name] = value.to(device)
    return Task(**values)
