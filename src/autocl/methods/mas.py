"""Memory aware synapses: importance is how strongly a weight moves the network's answers.

Shape legend: R = runs, P = parameters, N = outputs.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from autocl.methods.anchored import IMPORTANCE_BATCH, Anchored
from autocl.methods.base import register
from autocl.methods.examples import Examples


@register
@dataclass(kw_only=True, eq=False)
class MAS(Anchored):
    """Mean over examples of the magnitude of ∂‖f(x)‖²/∂θ (Aljundi et al. 2018); needs no labels."""

    name = "mas"
    default_strength = {"domain": 10000.0, "class": 1.0}  # noqa: RUF012 (a ClassVar of Anchored)

    def task_importance(self, examples: Examples) -> Tensor:
        """f are the outputs that may be meant; the norm is divided by their number, as in Hsu et al.'s λ."""
        n, meant = examples.rows.shape[1], int(self.seen.sum())
        total = torch.zeros_like(self.stack.flat)
        for start in range(0, n, IMPORTANCE_BATCH):
            order = torch.arange(start, min(start + IMPORTANCE_BATCH, n)).expand(self._runs, -1)
            activity = self.stack.forward(examples.take(order)[0])
            delta = activity[-1] * self.seen * (2 / meant)
            total += self.stack.backward(activity, delta, each=torch.abs)
        return total / n
