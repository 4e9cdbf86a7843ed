"""Memory aware synapses: importance is how strongly a weight moves the network's answers.

Shape legend: R = runs, P = parameters, N = outputs.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from autocl.errors import InputError
from autocl.methods.anchored import IMPORTANCE_BATCH, Anchored
from autocl.methods.base import register
from autocl.methods.examples import Examples


@register
@dataclass(kw_only=True, eq=False)
class MAS(Anchored):
    """Mean magnitude of ∂‖f(x)‖²/∂θ (Aljundi et al. 2018); needs no labels."""

    name = "mas"
    default_strength = {"domain": 10000.0, "class": 1.0}  # noqa: RUF012 (a ClassVar of Anchored)

    together: int = 128
    """Examples whose gradient is averaged before its magnitude is taken. The definition takes 1; the code of
    Aljundi et al. and of Hsu et al. takes a batch, which is smaller where examples disagree, and λ was found
    with it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.together < 1:
            raise InputError(f"together must be at least 1, got {self.together}")

    def task_importance(self, examples: Examples) -> Tensor:
        """f are the outputs that may be meant; the norm is divided by their number, as in Hsu et al.'s λ."""
        n, meant = examples.rows.shape[1], int(self.seen.sum())
        # Examples come sorted by class; batches must be mixed. A generator of its own leaves training alone.
        shuffles = [torch.Generator().manual_seed(seed) for seed in self.info.seeds]
        order = torch.stack([torch.randperm(n, generator=g) for g in shuffles])
        single = self.together == 1
        total = torch.zeros_like(self.stack.flat)
        for part in torch.split(order, IMPORTANCE_BATCH if single else self.together, dim=1):
            activity = self.stack.forward(examples.take(part)[0])
            delta = activity[-1] * self.seen * (2 / meant)
            # The sum of a batch's gradients has the magnitude of its mean times its size.
            total += self.stack.backward(activity, delta, each=torch.abs if single else None).abs_()
        return total / n
