"""Closed-form answers from a memory: kernels, ridge regression, discriminants, cosines to class means.

Each expert answers queries, and the prototypes themselves as if each had not been learned (leave-one-out,
also in closed form): its own examination on what the stream has shown.

Shape legend: B = streams, M = prototypes, D = dimensions, Q = queries, N = classes.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from autocl.readouts.memory import FREE, Memory

NEVER = -50.0
"""Score of a class of which nothing is left when a prototype is left out."""
LEAST_DEVIATION = 0.01
"""Scores deviate by at least a tenth of their mean when they are brought to scale."""
LEAST_NOISE = 0.05
"""A prototype of many demos is trusted as one of at most 1 / this: kernels of near twins stay solvable."""


class Expert(NamedTuple):
    """One way to answer."""

    read: Callable[[Tensor], Tensor]
    """Queries [B, Q, D] -> scores [B, Q, N]."""
    left_out: Tensor
    """[B, M, N], scores of each prototype as if it had not been learned."""


class Moments(NamedTuple):
    """What several experts need of a memory, computed once."""

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

    @staticmethod
    def of(memory: Memory, n_classes: int) -> "Moments":
        """Compute them; demos of one place count as many times as it stands for."""
        weight = memory.weight[..., None]
        target = F.one_hot(memory.label.clamp(min=0), n_classes).to(weight.dtype) * (weight > 0)
        n = memory.demos[:, None, None].clamp(min=1)
        mean = (weight * memory.prototype).sum(1, keepdim=True) / n
        power = (weight * memory.prototype.square()).sum((1, 2), keepdim=True)
        power = power + memory.scatter.diagonal(dim1=1, dim2=2).sum(1)[:, None, None]
        variance = (power / n - mean.square().sum(2, keepdim=True)) * n / (n - 1).clamp(min=1)
        spread = torch.where(variance > 1e-9, variance, torch.ones_like(variance))
        weighted = target * weight
        count = weighted.sum(1)
        centre = weighted.mT @ memory.prototype / count.clamp(min=1)[..., None]
        return Moments(memory, target, mean, spread, count, centre)

    @property
    def used(self) -> Tensor:
        """[B, M], 1 where a place holds a prototype."""
        return (self.memory.label != FREE).to(self.target.dtype)


def kernel_expert(moments: Moments, gamma: Tensor, penalty: Tensor) -> Expert:
    """Kernel ridge regression with a Gaussian kernel whose width is in units of the spread of the demos."""
    memory, used = moments.memory, moments.used
    P, square = memory.prototype, memory.prototype.square().sum(-1)
    rate = gamma / (4 * moments.spread)

    def kernel(x: Tensor) -> Tensor:
        distance = x.square().sum(-1)[..., None] + square[:, None] - 2 * x @ P.mT
        near: Tensor = torch.exp(-rate * distance.clamp(min=0)) * used[:, None]
        return near

    noise = penalty * (1 / memory.weight.clamp(min=1)).clamp(min=LEAST_NOISE)
    inverse = _inverse(kernel(P) * used[..., None] + torch.diag_embed(torch.where(used > 0, noise, 1.0)))
    dual = inverse @ moments.target
    left_out = moments.target - dual / inverse.diagonal(dim1=1, dim2=2)[..., None]
    return Expert(lambda x: kernel(x) @ dual, left_out)


def ridge_expert(moments: Moments, penalty: Tensor) -> Expert:
    """Ridge regression on all demos, exactly; features centred and in units of their spread, with a bias."""
    memory, scale = moments.memory, (2 * moments.spread).rsqrt()

    def key(x: Tensor) -> Tensor:
        z = (x - moments.mean) * scale
        return torch.cat([z, torch.ones_like(z[..., :1])], dim=-1)

    k, weight = key(memory.prototype), memory.weight[..., None]
    gram = k.mT @ (k * weight) + F.pad(memory.scatter * scale.square(), (0, 1, 0, 1))
    inverse = _inverse(gram + penalty * torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device))
    weights = inverse @ (k.mT @ (moments.target * weight))
    leverage = (weight * ((k @ inverse) * k).sum(-1, keepdim=True)).clamp(max=0.999)
    left_out = (k @ weights - leverage * moments.target) / (1 - leverage)
    return Expert(lambda x: key(x) @ weights, left_out)


def discriminant_expert(moments: Moments, shrinkage: Tensor) -> Expert:
    """Linear discriminants: the exact within-class scatter of all demos, plus a multiple of identity."""
    memory, centre = moments.memory, moments.centre
    D = centre.shape[-1]
    apart = (memory.prototype - moments.target @ centre) * moments.used[..., None]
    within = memory.scatter + apart.mT @ (apart * memory.weight[..., None])
    # `shrinkage` demos' worth of scatter that is equal in all directions
    round_ = shrinkage * moments.spread / D * torch.eye(D, dtype=within.dtype, device=within.device)
    inverse = _inverse(within + round_)
    weights = inverse @ centre.mT
    bias = -0.5 * (centre * weights.mT).sum(-1)[:, None]
    left_out = _without_itself(moments, memory.prototype @ weights, 2 * -bias, memory.prototype, inverse)
    return _normalised(lambda x: x @ weights + bias, left_out, moments)


def cosine_expert(moments: Moments) -> Expert:
    """Cosine to the class means, around the mean of all demos."""
    memory = moments.memory
    x = F.normalize(memory.prototype - moments.mean, dim=-1) * moments.used[..., None]
    total = (moments.target * memory.weight[..., None]).mT @ x
    centre = F.normalize(total, dim=-1)
    own = moments.target @ total - memory.weight[..., None] * x
    itself = (x * F.normalize(own, dim=-1)).sum(-1, keepdim=True)
    left_out = torch.where(moments.target > 0, itself, x @ centre.mT)
    return _normalised(lambda q: F.normalize(q - moments.mean, dim=-1) @ centre.mT, left_out, moments)


def _without_itself(moments: Moments, cross: Tensor, norm: Tensor, x: Tensor, metric: Tensor) -> Tensor:
    """Discriminants of the prototypes when their own demos are taken out of their class mean.

    Args:
        moments: of the memory.
        cross: [B, M, N], products of prototypes and class means in the metric.
        norm: [B, 1, N], of class means with themselves.
        x: [B, M, D], the prototypes.
        metric: [B, D, D].
    """
    target, weight = moments.target, moments.memory.weight
    own_cross = (cross * target).sum(-1)
    own_norm = (norm * target).sum(-1)
    square = ((x @ metric) * x).sum(-1)
    size = (moments.size[:, None] * target).sum(-1)
    rest = (size - weight).clamp(min=1)
    product = (size * own_cross - weight * square) / rest
    length = (size**2 * own_norm - 2 * size * weight * own_cross + weight**2 * square) / rest**2
    return torch.where(target > 0, (product - 0.5 * length)[..., None], cross - 0.5 * norm)


def _normalised(read: Callable[[Tensor], Tensor], left_out: Tensor, moments: Moments) -> Expert:
    """An expert whose leave-one-out scores have unit deviation, or less where they hardly deviate at all."""
    known = (
        moments.used[..., None]
        * (moments.size[:, None] > 0)
        * (1 - alone(moments)[..., None] * moments.target)
    )
    number = known.sum((1, 2), keepdim=True).clamp(min=1)
    mean = (left_out * known).sum((1, 2), keepdim=True) / number
    variance = ((left_out - mean).square() * known).sum((1, 2), keepdim=True) / number
    # Two demos in all give scores that are all alike: their deviation says nothing of what is large.
    scale = (variance + LEAST_DEVIATION * mean.square() + 1e-12).rsqrt()
    return Expert(lambda x: read(x) * scale, torch.where(known > 0, left_out * scale, NEVER))


def alone(moments: Moments) -> Tensor:
    """[B, M], 1 where no other prototype has the label of this one: left out, its class is gone."""
    places = moments.target.sum(1, keepdim=True)
    return ((places * moments.target).sum(-1) <= 1).to(places.dtype)


def _inverse(A: Tensor) -> Tensor:
    """Inverse of symmetric positive definite matrices [B, n, n]."""
    return torch.cholesky_inverse(torch.linalg.cholesky(A))
