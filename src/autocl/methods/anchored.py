"""Anchored: training under a quadratic penalty that ties important weights to their earlier values.

The penalty of L2, EWC, SI and MAS is λ Σ Ω (θ - θ*)². They differ in the importance Ω and in nothing else.

Shape legend: R = runs, P = parameters.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from autocl.data.stream_config import Scenario
from autocl.errors import InputError
from autocl.methods.base import StreamInfo
from autocl.methods.examples import Examples, Share
from autocl.methods.trained import Trained

IMPORTANCE_BATCH = 500
"""Examples of each run whose importance is computed at a time."""


@dataclass(kw_only=True, eq=False)
class Anchored(Trained):
    """Fine-tuning under the penalty; a subclass says how important the finished task made each weight."""

    default_strength: ClassVar[dict[Scenario, float]]
    """λ of Hsu et al. for each scenario."""

    strength: float | None = None
    """λ; None takes the default of the scenario."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.strength is not None and self.strength < 0:
            raise InputError(f"strength must not be negative, got {self.strength}")

    def begin(self, info: StreamInfo) -> None:
        """Draw the networks of all runs and forget the rest."""
        super().begin(info)
        # θ* and Ω, both [R, P].
        self.anchor = self.stack.flat.clone()
        self.importance = torch.zeros_like(self.stack.flat)
        self._strength = self.default_strength[info.scenario] if self.strength is None else self.strength
        self._tied = False
        self._pull = torch.empty_like(self.stack.flat)

    def consolidate(self, examples: Examples) -> None:
        """Update `importance` and `anchor` at a boundary, having trained on these examples."""
        self.importance = self.importance + self.task_importance(examples)
        self.anchor = self.stack.flat.clone()

    @abstractmethod
    def task_importance(self, examples: Examples) -> Tensor:
        """Importance [R, P] of every weight for the task just learned."""

    def _adjust(self, gradient: Tensor) -> None:
        if self._tied:
            torch.sub(self.stack.flat, self.anchor, out=self._pull)
            gradient.add_(self._pull.mul_(self.importance), alpha=2 * self._strength)

    def _after(self, share: Share, examples: Examples) -> None:
        self.consolidate(examples)
        self._tied = True

    def _state(self) -> list[Tensor]:
        return [*super()._state(), self.anchor, self.importance]
