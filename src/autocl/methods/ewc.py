"""Elastic weight consolidation: importance is the diagonal of the Fisher information.

Shape legend: R = runs, P = parameters.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from autocl.methods.anchored import IMPORTANCE_BATCH, Anchored
from autocl.methods.base import register
from autocl.methods.examples import Examples


@register
@dataclass(kw_only=True, eq=False)
class OnlineEWC(Anchored):
    """One running Fisher information, summed over tasks, around the latest weights (Schwarz et al. 2018)."""

    name = "online-ewc"
    default_strength = {"domain": 700.0, "class": 100.0}  # noqa: RUF012 (a ClassVar of Anchored)

    def task_importance(self, examples: Examples) -> Tensor:
        """Mean over examples of the squared gradient of log p(ŷ | x), where ŷ is the network's own answer.

        The gradient of every single example is squared, not that of a batch, which would cancel out.
        """
        n = examples.rows.shape[1]
        total = torch.zeros_like(self.stack.flat)
        for start in range(0, n, IMPORTANCE_BATCH):
            order = torch.arange(start, min(start + IMPORTANCE_BATCH, n)).expand(self._runs, -1)
            activity = self.stack.forward(examples.take(order)[0])
            logits = self._logits(activity[-1])
            answer = F.one_hot(logits.argmax(-1), logits.shape[-1])
            total += self.stack.backward(activity, logits.softmax(-1) - answer, each=torch.square)
        return total / n


@register
@dataclass(kw_only=True, eq=False)
class EWC(OnlineEWC):
    """One penalty for each task, around the weights of its own end (Kirkpatrick et al. 2017)."""

    name = "ewc"
    default_strength = {"domain": 100.0, "class": 600.0}  # noqa: RUF012 (a ClassVar of Anchored)

    def consolidate(self, examples: Examples) -> None:
        """Add a penalty; a sum of quadratics is one quadratic about the mean weighted by importance.

        So two tensors do for any number of tasks. Where nothing is important the anchor does not matter.
        """
        new = self.task_importance(examples)
        total = self.importance + new
        shift = (self.stack.flat - self.anchor) * new / total
        self.anchor = torch.where(total > 0, self.anchor + shift, self.anchor)
        self.importance = total
