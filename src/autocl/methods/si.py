"""Synaptic intelligence: importance is the share of a weight in how far the loss fell along the way.

Shape legend: R = runs, P = parameters.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from autocl.methods.anchored import Anchored
from autocl.methods.base import register
from autocl.methods.examples import Examples


@register
@dataclass(kw_only=True, eq=False)
class SI(Anchored):
    """Path integral of gradient times movement, over the squared distance gone (Zenke et al. 2017)."""

    name = "si"
    default_strength = {"domain": 3000.0, "class": 600.0}  # noqa: RUF012 (a ClassVar of Anchored)

    damping: float = 0.1
    """ξ, keeps the importance of weights that hardly moved finite."""

    def task_importance(self, examples: Examples) -> Tensor:
        """ω / (Δ² + ξ), Δ the way from boundary to boundary. Negative where the loss rose along a weight."""
        return self.path / ((self.stack.flat - self.anchor).square_() + self.damping)

    def _before(self, examples: Examples) -> None:
        # [R, P]: the integral since the last boundary.
        self.path = torch.zeros_like(self.stack.flat)
        self._start, self._own = torch.empty_like(self.path), torch.empty_like(self.path)

    def _step(self, gradient: Tensor) -> None:
        # The gradient of the task's own loss counts, before the penalty is added to it in place.
        start, own = self._start.copy_(self.stack.flat), self._own.copy_(gradient)
        super()._step(gradient)
        self.path.addcmul_(own, start.sub_(self.stack.flat))
