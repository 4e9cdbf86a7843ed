"""Moments of a memory: what several experts need of it, computed once.

Shape legend: B = streams, M = prototypes, D = dimensions, N = classes.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from autocl.ops.backends import available
from autocl.readouts.memory import FREE, Memory


class Moments(NamedTuple):
    """Moments of a memory that several experts need, computed once."""

    memory: Memory
    target: Tensor
    """[B, M, N], one-hot labels; zero rows at free places."""
    mean: Tensor
    """[B, 1, D], of all demos."""
    spread: Tensor
    """[B, 1, 1], half the mean squared distance between two demos."""
    size: Tensor
    """[B, N], demos of each class."""
    centre: Tensor
    """[B, N, D], class means; zero for classes without demos."""
    second: Tensor | None
    """[B, D, D], sum over all demos of x xᵀ; None while prototypes are demos and fewer than dimensions."""
    asked: int
    """Places up to the last one that is examined in any stream: all before the first merger, then few."""

    @staticmethod
    def of(memory: Memory, n_classes: int) -> "Moments":
        """Compute them; demos of one place count as many times as it stands for."""
        weight = memory.weight[..., None]
        target = F.one_hot(memory.label.clamp(min=0), n_classes).to(weight.dtype) * (weight > 0)
        n = memory.demos[:, None, None].clamp(min=1)
        mean = (weight * memory.prototype).sum(1, keepdim=True) / n
        power = (weight * memory.prototype.square()).sum((1, 2), keepdim=True)
        power = power + memory.scatter_trace[:, None, None]
        variance = (power / n - mean.square().sum(2, keepdim=True)) * n / (n - 1).clamp(min=1)
        spread = torch.where(variance > 1e-9, variance, torch.ones_like(variance))
        weighted = target * weight
        count = weighted.sum(1)
        centre = weighted.mT @ memory.prototype / count.clamp(min=1)[..., None]
        second = None
        if memory.weight.shape[1] >= memory.prototype.shape[2] or bool((memory.weight > 1).any()):
            second = (weight * memory.prototype).mT @ memory.prototype + memory.scatter_matrix
        found = Moments(memory, target, mean, spread, count, centre, second, asked=1)
        examined = found.examined.any(0).nonzero()
        return found._replace(asked=1 + int(examined.amax())) if len(examined) else found

    def around(self, mean: Tensor, size: Tensor) -> Tensor | None:
        """Scatter [B, D, D] of all demos around the means [B, G, D] of groups of this size [B, G].

        None where `second` is: it can be had from the prototypes then, and its inverse is cheap.
        """
        rows = mean * size.sqrt()[..., None]
        return None if self.second is None else self.second - rows.mT @ rows

    @property
    def used(self) -> Tensor:
        """[B, M], 1 where a place holds a prototype."""
        return (self.memory.label != FREE).to(self.target.dtype)

    @property
    def examined(self) -> Tensor:
        """[B, M], 1 where an expert can be asked about a prototype as if it had not been learned."""
        return self.memory.sample * (1 - self.alone)

    @property
    def alone(self) -> Tensor:
        """[B, M], 1 where no other prototype has the label of this one: left out, its class is gone."""
        places = self.target.sum(1, keepdim=True)
        return ((places * self.target).sum(-1) <= 1).to(places.dtype)


def compiles(x: Tensor) -> bool:
    """Whether kernels can answer for streams x [B, …]: one stream, on the CPU, nothing to differentiate."""
    return len(x) == 1 and x.device.type == "cpu" and not torch.is_grad_enabled() and available("numba")
