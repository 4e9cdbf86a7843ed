"""Closed-form classifiers over a memory: kernels, ridge regression, discriminants, clusters, class means.

Each scores queries, and scores the prototypes themselves as if each had not been learned (leave-one-out, in
closed form): its examination on what the stream has shown.

Shape legend: B = streams, M = prototypes, D = dimensions, Q = queries, N = classes, E = experts,
G = groups.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from autocl.readouts.groups import REACH, Groups, classes_of, clusters_of
from autocl.readouts.moments import Moments

KERNELS = ((1.0, 0.1), (3.0, 0.02), (3.0, 0.4), (9.0, 0.05), (27.0, 0.02))
"""(rate, noise) of Gaussian kernels, from nearly linear to nearest neighbour; the rate is in units of the
spread of the demos. Chosen on validation sets (docs/notebook.md)."""
WHITENED_KERNEL = (3.0, 0.2)
"""The same for distances in the metric of the within-class scatter."""
WHITENING = 10.0
"""Share of a round scatter that is added to the within-class scatter for `WHITENED_KERNEL`."""
PENALTY = 0.6
"""Penalty of ridge regression, in units of the spread."""
SHRINKAGE, PROPORTION = 60.0, 1.0
"""Prior of the discriminants: so many demos' worth of spread, and so much of the within-class scatter, is
added in all directions alike. With many demos this is half-way to a round covariance."""
NAMES = (
    *(f"kernel {rate:g}/{noise:g}" for rate, noise in KERNELS),
    "whitened",
    "ridge",
    "lda",
    *(f"clusters {reach:g}" for reach in REACH),
    "cosine",
    "means",
)
"""Names of all experts, in their order."""
NEVER = -50.0
"""Score of a class of which nothing is left when a prototype is left out."""
LEAST_DEVIATION = 0.01
"""Scores deviate by at least a tenth of their mean when they are brought to scale."""
LEAST_COSINE = 0.015
"""Cosines deviate by at least this, also when two demos have none to speak of."""
LEAST_NOISE = 0.05
"""A prototype of many demos is trusted as one of at most 1 / this: kernels of near twins stay solvable."""


class Panel(NamedTuple):
    """Experts that share their computation."""

    read: Callable[[Tensor], Tensor]
    """Queries [B, Q, D] -> scores [B, E, Q, N]."""
    left_out: Tensor
    """[B, E, M, N], scores of each prototype as if it had not been learned."""


def all_experts(moments: Moments) -> Panel:
    """Every expert of `NAMES` on one memory."""
    scatter = moments.memory.scatter if bool((moments.memory.weight > 1).any()) else None
    apart = (moments.memory.prototype - moments.target @ moments.centre) * moments.used[..., None]
    apart = apart * moments.memory.weight.sqrt()[..., None]
    return joined(
        [
            kernels(moments),
            whitened_kernel(moments, apart, scatter),
            ridge(moments, scatter),
            discriminants(moments, classes_of(moments), scatter),
            *(discriminants(moments, groups, scatter) for groups in clusters_of(moments)),
            cosines(moments, moments.mean),
            cosines(moments, torch.zeros_like(moments.mean)),
        ]
    )


def joined(panels: Sequence[Panel]) -> Panel:
    """Several panels as one, experts in their order."""
    return Panel(
        lambda x: torch.cat([panel.read(x) for panel in panels], 1),
        torch.cat([panel.left_out for panel in panels], 1),
    )


def kernels(moments: Moments) -> Panel:
    """Kernel ridge regression with Gaussian kernels of `KERNELS`."""
    prototype = moments.memory.prototype
    square = prototype.square().sum(-1)

    def distance(x: Tensor) -> Tensor:
        return x.square().sum(-1)[..., None] + square[:, None] - 2 * x @ prototype.mT

    return _kernel_panel(moments, KERNELS, distance, moments.spread)


def whitened_kernel(moments: Moments, apart: Tensor, scatter: Tensor | None) -> Panel:
    """Kernel ridge regression on distances in the metric of the within-class scatter.

    Args:
        moments: of the memory.
        apart: [B, M, D], prototypes minus their class means, times the roots of their weights.
        scatter: [B, D, D], of demos around prototypes, or None if there is none.
    """
    prototype = moments.memory.prototype
    demos = moments.memory.demos[:, None, None]
    inner = inner_product(apart, WHITENING * moments.spread * demos / prototype.shape[-1], scatter)
    square = inner.square(prototype)

    def distance(x: Tensor) -> Tensor:
        return inner.square(x)[..., None] + square[:, None] - 2 * inner.product(x, prototype)

    weight = moments.memory.weight
    pairs = (weight[:, :, None] * weight[:, None] * distance(prototype)).sum((1, 2), keepdim=True)
    spread = pairs / (2 * demos * (demos - 1).clamp(min=1))
    spread = torch.where(spread > 1e-9, spread, torch.ones_like(spread))
    return _kernel_panel(moments, (WHITENED_KERNEL,), distance, spread)


def _kernel_panel(
    moments: Moments,
    settings: Sequence[tuple[float, float]],
    distance: Callable[[Tensor], Tensor],
    spread: Tensor,
) -> Panel:
    memory, used = moments.memory, moments.used
    rate = used.new_tensor([rate for rate, _ in settings])[:, None, None] / (4 * spread[:, None])
    noise = used.new_tensor([noise for _, noise in settings])[:, None]

    def kernel(x: Tensor) -> Tensor:
        near: Tensor = torch.exp(-rate * distance(x).clamp(min=0)[:, None]) * used[:, None, None]
        return near

    doubt = noise * (1 / memory.weight.clamp(min=1)).clamp(min=LEAST_NOISE)[:, None]
    diagonal = torch.where(used[:, None] > 0, doubt, 1.0)
    inverse = _inverse(kernel(memory.prototype) * used[:, None, :, None] + torch.diag_embed(diagonal))
    dual = inverse @ moments.target[:, None]
    left_out = moments.target[:, None] - dual / inverse.diagonal(dim1=2, dim2=3)[..., None]
    return Panel(lambda x: kernel(x) @ dual, left_out)


def ridge(moments: Moments, scatter: Tensor | None) -> Panel:
    """Ridge regression on all demos, exactly; features and targets centred."""
    memory, weight = moments.memory, moments.memory.weight[..., None]
    x = (memory.prototype - moments.mean) * moments.used[..., None]
    inner = inner_product(x * weight.sqrt(), PENALTY * moments.spread, scatter)
    usual = (moments.size / moments.size.sum(1, keepdim=True).clamp(min=1))[:, None]
    dual = weight * (moments.target - usual)

    def read(q: Tensor) -> Tensor:
        return (inner.product(q - moments.mean, x) @ dual + usual)[:, None]

    leverage = (weight * inner.square(x)[..., None]).clamp(max=0.999)
    left_out = (read(memory.prototype)[:, 0] - leverage * moments.target) / (1 - leverage)
    return Panel(read, left_out[:, None])


def discriminants(moments: Moments, groups: Groups, scatter: Tensor | None) -> Panel:
    """Linear discriminants: the exact scatter of all demos within groups, plus a multiple of identity.

    The score of a class is that of its best group.

    Args:
        moments: of the memory.
        groups: what has a mean of its own.
        scatter: [B, D, D], of demos around prototypes, or None if there is none.
    """
    memory, member = moments.memory, groups.member
    prototype, weight = memory.prototype, memory.weight
    size = (member * weight[..., None]).sum(1)
    centre = (member * weight[..., None]).mT @ prototype / size.clamp(min=1)[..., None]
    apart = (prototype - member @ centre) * (moments.used * weight.sqrt())[..., None]
    within = apart.square().sum((1, 2), keepdim=True)
    if scatter is not None:
        within = within + scatter.diagonal(dim1=1, dim2=2).sum(1)[:, None, None]
    level = SHRINKAGE * moments.spread + PROPORTION * within
    inner = inner_product(apart, level / prototype.shape[-1], scatter)
    norm = inner.square(centre)[:, None]
    cross, square = inner.product(prototype, centre), inner.square(prototype)

    # A prototype's own demos are taken out of its group's mean; the scatter stays.
    own_cross, own_norm = (cross * member).sum(-1), (norm * member).sum(-1)
    own_size = (size[:, None] * member).sum(-1)
    rest = (own_size - weight).clamp(min=1)
    product = (own_size * own_cross - weight * square) / rest
    length = (own_size**2 * own_norm - 2 * own_size * weight * own_cross + weight**2 * square) / rest**2
    itself = torch.where(own_size > weight, product - 0.5 * length, -torch.inf)[..., None]
    left_out = torch.where(member > 0, itself, cross - 0.5 * norm)
    there = size[:, None] > 0

    def best(score: Tensor) -> Tensor:
        """[B, Q, G] -> [B, Q, N]; 0 for a class without groups, of which nobody asks."""
        score = score.masked_fill(~there, -torch.inf)
        of_class = groups.owner[:, None].expand_as(score)
        whole = score.new_full((*score.shape[:2], moments.size.shape[1]), -torch.inf)
        whole = whole.scatter_reduce(2, of_class, score, "amax")
        return torch.where(whole.isfinite(), whole, 0.0)

    return _normalised(lambda x: best(inner.product(x, centre) - 0.5 * norm), best(left_out), moments)


def cosines(moments: Moments, origin: Tensor) -> Panel:
    """Cosine to the class means, seen from an origin [B, 1, D]."""
    memory = moments.memory
    x = F.normalize(memory.prototype - origin, dim=-1) * moments.used[..., None]
    total = (moments.target * memory.weight[..., None]).mT @ x
    centre = F.normalize(total, dim=-1)
    own = moments.target @ total - memory.weight[..., None] * x
    itself = (x * F.normalize(own, dim=-1)).sum(-1, keepdim=True)
    left_out = torch.where(moments.target > 0, itself, x @ centre.mT)

    def read(q: Tensor) -> Tensor:
        return F.normalize(q - origin, dim=-1) @ centre.mT

    return _normalised(read, left_out, moments, LEAST_COSINE**2)


def _normalised(
    read: Callable[[Tensor], Tensor], left_out: Tensor, moments: Moments, least: float = 1e-12
) -> Panel:
    """An expert whose leave-one-out scores have unit deviation, or less where they hardly deviate at all.

    Args:
        read: its scores, [B, Q, D] -> [B, Q, N].
        left_out: [B, M, N].
        moments: of the memory.
        least: variance that is added in any case.
    """
    known = (
        moments.used[..., None]
        * (moments.size[:, None] > 0)
        * (1 - moments.alone[..., None] * moments.target)
    )
    number = known.sum((1, 2), keepdim=True).clamp(min=1)
    mean = (left_out * known).sum((1, 2), keepdim=True) / number
    variance = ((left_out - mean).square() * known).sum((1, 2), keepdim=True) / number
    # Two demos in all give scores that are all alike: their deviation says nothing of what is large.
    scale = (variance + LEAST_DEVIATION * mean.square() + least).rsqrt()
    return Panel(
        lambda x: (read(x) * scale)[:, None], torch.where(known > 0, left_out * scale, NEVER)[:, None]
    )


class InnerProduct(NamedTuple):
    """⟨u, v⟩ = u A⁻¹ vᵀ for a positive definite A."""

    product: Callable[[Tensor, Tensor], Tensor]
    """u [B, m, D], v [B, n, D] -> [B, m, n]."""
    square: Callable[[Tensor], Tensor]
    """u [B, m, D] -> ⟨u, u⟩ of each row, [B, m]."""


def inner_product(rows: Tensor, level: Tensor, scatter: Tensor | None) -> InnerProduct:
    """The inner product of A = level · I + rowsᵀ rows + scatter.

    Without a scatter A differs from a multiple of identity in the span of the rows only, and a matrix of
    their number is inverted instead of one of D (Woodbury): cheap while a stream is short.

    Args:
        rows: [B, M, D].
        level: [B, 1, 1], positive.
        scatter: [B, D, D], or None for zero.
    """
    M, D = rows.shape[1:]
    if scatter is None and M < D:
        eye = torch.eye(M, dtype=rows.dtype, device=rows.device)
        small = _inverse(level * eye + rows @ rows.mT)

        def product(u: Tensor, v: Tensor) -> Tensor:
            return (u @ v.mT - (u @ rows.mT) @ (small @ (rows @ v.mT))) / level

        def square(u: Tensor) -> Tensor:
            part = u @ rows.mT
            return (u.square().sum(-1) - ((part @ small) * part).sum(-1)) / level[..., 0]

        return InnerProduct(product, square)
    whole = level * torch.eye(D, dtype=rows.dtype, device=rows.device) + rows.mT @ rows
    inverse = _inverse(whole if scatter is None else whole + scatter)
    return InnerProduct(lambda u, v: u @ inverse @ v.mT, lambda u: ((u @ inverse) * u).sum(-1))


def _inverse(A: Tensor) -> Tensor:
    """Inverse of symmetric positive definite matrices [..., n, n]."""
    return torch.cholesky_inverse(torch.linalg.cholesky(A))
