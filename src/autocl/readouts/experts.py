"""Closed-form classifiers over a memory: kernels, ridge regression, discriminants, clusters, class means.

Each scores queries, and scores the prototypes themselves as if each had not been learned (leave-one-out, in
closed form): its examination on what the stream has shown.

Shape legend: B = streams, M = prototypes, D = dimensions, Q = queries, N = classes, E = experts,
G = groups.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from autocl.readouts.groups import REACH, Groups, classes_of, clusters_of
from autocl.readouts.metric import InnerProduct, inner_product
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
SHRINKAGE, SHARP, PROPORTION = 60.0, 1.0, 1.0
"""Prior of the discriminants: so many demos' worth of spread (the sharp ones: nearly none), and so much of
the within-class scatter, is added in all directions alike. With many demos this is half-way to a round
covariance."""
NAMES = (
    *(f"kernel {rate:g}/{noise:g}" for rate, noise in KERNELS),
    "whitened",
    "ridge",
    "lda",
    "sharp lda",
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


class Panel(Protocol):
    """Experts that share their computation."""

    @property
    def left_out(self) -> Tensor:
        """[B, E, M', N], scores of each prototype that is examined as if it had not been learned."""

    def read(self, x: Tensor, /) -> Tensor:
        """Queries [B, Q, D] -> scores [B, E, Q, N]."""


class Experts(NamedTuple):
    """Every expert of `NAMES` on one memory."""

    kernels: "Kernels"
    whitened: "Kernels"
    linear: tuple["Linear", ...]

    @property
    def left_out(self) -> Tensor:
        """[B, E, M', N], scores of each prototype that is examined as if it had not been learned."""
        return torch.cat([panel.left_out for panel in self._panels], 1)

    def read(self, x: Tensor) -> Tensor:
        """Queries [B, Q, D] -> scores [B, E, Q, N]."""
        return torch.cat([panel.read(x) for panel in self._panels], 1)

    @property
    def _panels(self) -> tuple[Panel, ...]:
        return (self.kernels, self.whitened, *self.linear)


def all_experts(moments: Moments) -> Experts:
    """Every expert of `NAMES` on one memory."""
    linear = (
        ridge(moments),
        *(discriminants(moments, classes_of(moments), prior) for prior in (SHRINKAGE, SHARP)),
        *(discriminants(moments, groups) for groups in clusters_of(moments)),
        cosines(moments, moments.mean),
        cosines(moments, torch.zeros_like(moments.mean)),
    )
    return Experts(kernels(moments), whitened_kernel(moments), linear)


class Kernels(NamedTuple):
    """Kernel ridge regression with Gaussian kernels of one distance."""

    inner: InnerProduct
    """Of the distance."""
    columns: Tensor
    """[B, D, M]: twice the inner product of a query with the prototypes is its product with these."""
    square: Tensor
    """[B, M], squared lengths of the prototypes; infinite at free places."""
    rate: Tensor
    """[B, E]."""
    dual: Tensor
    """[B, E, M, N]."""
    left_out: Tensor

    def read(self, x: Tensor) -> Tensor:
        """Queries [B, Q, D] -> scores [B, E, Q, N]."""
        distance = self.inner.square(x)[..., None] + self.square[:, None] - x @ self.columns
        near = torch.exp(-self.rate[..., None, None] * distance.clamp(min=0)[:, None])
        return near @ self.dual


class Linear(NamedTuple):
    """An expert whose scores of groups are linear in the query; a class scores as its best group."""

    columns: Tensor
    """[B, D, G]."""
    offset: Tensor
    """[B, 1, G]; -inf for a group without members."""
    groups: "Groups"
    origin: Tensor | None
    """[B, 1, D]: what is scored is the direction in which a query lies from here; None: the query itself."""
    scale: Tensor
    """[B, 1, 1]."""
    left_out: Tensor
    n_classes: int

    def read(self, x: Tensor) -> Tensor:
        """Queries [B, Q, D] -> scores [B, 1, Q, N]."""
        x = x if self.origin is None else F.normalize(x - self.origin, dim=-1)
        best = best_group(x @ self.columns + self.offset, self.groups, self.n_classes)
        return (best * self.scale)[:, None]


def best_group(scores: Tensor, groups: Groups, n_classes: int) -> Tensor:
    """Scores of groups [B, Q, G] -> of classes [B, Q, N]; 0 for a class without groups: nobody asks of it."""
    of_class = groups.owner[:, None].expand_as(scores)
    whole = scores.new_full((*scores.shape[:2], n_classes), -torch.inf)
    whole = whole.scatter_reduce(2, of_class, scores, "amax")
    return torch.where(whole.isfinite(), whole, 0.0)


def kernels(moments: Moments) -> Kernels:
    """Kernel ridge regression with Gaussian kernels of `KERNELS`."""
    nothing = moments.mean.new_zeros(len(moments.mean), moments.mean.shape[-1], 0)
    plain = InnerProduct(nothing, torch.ones_like(moments.spread))
    points, asked = _points(moments, KERNELS, plain, moments.spread), moments.asked
    # In reverse order, since the examined prototypes come first and the last block of an inverse is cheap:
    # it is the inverse of what the last block of the Cholesky factor makes alone.
    solved = solve_kernels(points.near().flip(2, 3), moments.target.flip(1), asked)
    dual, last = (t.flip(2) for t in solved)
    left_out = moments.target[:, None, :asked] - dual[:, :, :asked] / last[..., None]
    return Kernels(plain, points.columns, points.square, points.rate, dual, left_out)


def whitened_kernel(moments: Moments) -> Kernels:
    """Kernel ridge regression on distances in the metric of the within-class scatter."""
    memory = moments.memory
    demos = memory.demos[:, None, None].clamp(min=1)
    apart = (memory.prototype - moments.target @ moments.centre) * memory.weight.sqrt()[..., None]
    level = WHITENING * moments.spread * demos / apart.shape[-1]
    inner = inner_product(apart, level, moments.around(moments.centre, moments.size))
    # Half the mean squared distance between two demos, from prototypes and their weights.
    square = (memory.weight * inner.square(memory.prototype)).sum(1)[:, None, None]
    pairs = demos * square - demos.square() * inner.square(moments.mean)[..., None]
    spread = pairs / (demos * (demos - 1).clamp(min=1))
    spread = torch.where(spread > 1e-9, spread, torch.ones_like(spread))
    points = _points(moments, (WHITENED_KERNEL,), inner, spread)
    factor = torch.linalg.cholesky(points.near())
    inverse = torch.cholesky_inverse(factor)[:, 0]
    dual, asked = inverse @ moments.target, moments.asked
    apart = (points.distance[:, :asked] + _moved(moments, inner)).clamp(min=0)
    near = torch.exp(-points.rate[..., None] * apart)
    near = near.diagonal_scatter(torch.zeros_like(near[:, 0, :asked]), dim1=1, dim2=2)
    # Of the dual weights each left-out prototype takes with it what they owe to it.
    owed = (near * inverse[:, :asked]).sum(-1) / inverse.diagonal(dim1=1, dim2=2)[:, :asked]
    left_out = near @ dual - owed[..., None] * dual[:, :asked]
    return Kernels(inner, points.columns, points.square, points.rate, dual[:, None], left_out[:, None])


def _moved(moments: Moments, inner: InnerProduct) -> Tensor:
    """By how much each examined prototype is farther from the others once it is taken out of the metric.

    A metric that has a prototype's own deviation in its scatter takes it for nothing, and the kernel would
    pass its examination by that. Taking one out is a rank-one change; see `discriminants`.

    Returns:
        [B, M', M], to add to squared distances.
    """
    memory, asked = moments.memory, moments.asked
    prototype, target, weight = memory.prototype, moments.target[:, :asked], memory.weight[:, :asked]
    size = (target @ moments.size[..., None])[..., 0]
    apart = prototype[:, :asked] - target @ moments.centre  # u
    along = inner.times(apart)  # u A⁻¹
    with_others = along @ prototype.mT
    itself = (along * prototype[:, :asked]).sum(-1, keepdim=True)
    lost = weight * size / (size - weight).clamp(min=1)
    gain = lost / (1 - (lost * (along * apart).sum(-1)).clamp(max=0.999))
    return gain[..., None] * (itself - with_others).square()


class _Points(NamedTuple):
    """Prototypes as kernels see them."""

    columns: Tensor
    """[B, D, M], as `Kernels.columns`."""
    square: Tensor
    """[B, M]."""
    distance: Tensor
    """[B, M, M], squared; infinite from and to free places."""
    rate: Tensor
    """[B, E]."""
    diagonal: Tensor
    """[B, E, M], of the kernels with their noise."""

    def near(self) -> Tensor:
        """The kernels, [B, E, M, M]."""
        near = torch.exp(-self.rate[..., None, None] * self.distance.clamp(min=0)[:, None])
        return near.diagonal_scatter(self.diagonal, dim1=2, dim2=3)


def _points(
    moments: Moments, settings: Sequence[tuple[float, float]], inner: InnerProduct, spread: Tensor
) -> _Points:
    used, prototype = moments.used, moments.memory.prototype
    rate = used.new_tensor([rate for rate, _ in settings]) / (4 * spread[:, 0])
    noise = used.new_tensor([noise for _, noise in settings])[:, None]
    columns = 2 * inner.times(prototype).mT
    square = inner.square(prototype).masked_fill(used == 0, torch.inf)
    distance = square[..., None] + square[:, None] - prototype @ columns
    doubt = noise * (1 / moments.memory.weight.clamp(min=1)).clamp(min=LEAST_NOISE)[:, None]
    diagonal = torch.where(used[:, None] > 0, 1 + doubt, 1.0)
    return _Points(columns, square, distance, rate, diagonal)


def solve_kernels(near: Tensor, target: Tensor, asked: int) -> tuple[Tensor, Tensor]:
    """Weights of kernel ridge regression [B, E, M, N], and the last diagonal elements of the inverse kernel.

    Args:
        near: [B, E, M, M], the kernels with their noise.
        target: [B, M, N].
        asked: how many of the last diagonal elements, [B, E, asked].
    """
    factor = torch.linalg.cholesky(near)
    last = factor[..., len(target[0]) - asked :, len(target[0]) - asked :]
    inverse = torch.cholesky_inverse(last).diagonal(dim1=2, dim2=3)
    return torch.cholesky_solve(target[:, None], factor), inverse


def ridge(moments: Moments) -> Linear:
    """Ridge regression on all demos, exactly; features and targets centred."""
    memory, weight = moments.memory, moments.memory.weight[..., None]
    x = (memory.prototype - moments.mean) * moments.used[..., None]
    around = moments.around(moments.mean, memory.demos[:, None])
    inner = inner_product(x * weight.sqrt(), PENALTY * moments.spread, around)
    usual = (moments.size / moments.size.sum(1, keepdim=True).clamp(min=1))[:, None]
    columns = inner.times((weight * (moments.target - usual)).mT @ x).mT
    offset = usual - moments.mean @ columns

    asked = moments.asked
    leverage = (weight * inner.square(x)[..., None]).clamp(max=0.999)[:, :asked]
    said = (memory.prototype @ columns + offset)[:, :asked]
    left_out = (said - leverage * moments.target[:, :asked]) / (1 - leverage)
    one, N = torch.ones_like(moments.spread), moments.size.shape[1]
    return Linear(columns, offset, classes_of(moments), None, one, left_out[:, None], N)


def discriminants(moments: Moments, groups: Groups, prior: float = SHRINKAGE) -> Linear:
    """Linear discriminants: the exact scatter of all demos within groups, plus a multiple of identity.

    The score of a class is that of its best group.

    Args:
        moments: of the memory.
        groups: what has a mean of its own.
        prior: demos' worth of spread that is added to the scatter.
    """
    memory, member = moments.memory, groups.member
    prototype, weight = memory.prototype, memory.weight
    size = (member * weight[..., None]).sum(1)
    centre = (member * weight[..., None]).mT @ prototype / size.clamp(min=1)[..., None]
    apart = (prototype - member @ centre) * (moments.used * weight.sqrt())[..., None]
    within = apart.square().sum((1, 2)) + memory.scatter_trace
    level = (prior * moments.spread + PROPORTION * within[:, None, None]) / prototype.shape[-1]
    inner = inner_product(apart, level, moments.around(centre, size))
    columns = inner.times(centre).mT
    norm = (centre.mT * columns).sum(1, keepdim=True)
    cross, square = prototype @ columns, inner.square(prototype)

    # A prototype's own demos are taken out of its group's mean and of the scatter (a rank-one change): a
    # scatter that has them in it takes their deviation for nothing. u is the deviation from the group's mean.
    own_cross, own_norm = (cross * member).sum(-1), (norm * member).sum(-1)
    own_size = (size[:, None] * member).sum(-1)
    rest = (own_size - weight).clamp(min=1)
    among = centre @ columns
    u_mean = cross - member @ among  # of u with every mean
    u_own, u_x, u_u = own_cross - own_norm, square - own_cross, square - 2 * own_cross + own_norm
    lost = weight * own_size / rest
    gain = (lost / (1 - (lost * u_u).clamp(max=0.999)))[..., None]
    others = cross - 0.5 * norm + gain * u_mean * (u_x[..., None] - 0.5 * u_mean)
    step = weight / rest
    product, length, u_moved = (
        own_cross - step * u_x,
        own_norm - step * (2 * u_own - step * u_u),
        u_own - step * u_u,
    )
    moved = product - 0.5 * length + gain[..., 0] * u_moved * (u_x - 0.5 * u_moved)
    itself = torch.where(own_size > weight, moved, -torch.inf)[..., None]
    offset = (-0.5 * norm).masked_fill(size[:, None] == 0, -torch.inf)
    N = moments.size.shape[1]
    others = others.masked_fill(size[:, None] == 0, -torch.inf)
    left_out = best_group(torch.where(member > 0, itself, others), groups, N)
    return Linear(columns, offset, groups, None, *_normalised(moments, left_out), N)


def cosines(moments: Moments, origin: Tensor) -> Linear:
    """Cosine to the class means, seen from an origin [B, 1, D]."""
    memory = moments.memory
    x = F.normalize(memory.prototype - origin, dim=-1) * moments.used[..., None]
    total = (moments.target * memory.weight[..., None]).mT @ x
    columns = F.normalize(total, dim=-1).mT
    own = moments.target @ total - memory.weight[..., None] * x
    itself = (x * F.normalize(own, dim=-1)).sum(-1, keepdim=True)
    left_out = torch.where(moments.target > 0, itself, x @ columns)
    offset, groups = torch.zeros_like(columns[:, :1]), classes_of(moments)
    normalised = _normalised(moments, left_out, LEAST_COSINE**2)
    return Linear(columns, offset, groups, origin, *normalised, moments.size.shape[1])


def _normalised(moments: Moments, left_out: Tensor, least: float = 1e-12) -> tuple[Tensor, Tensor]:
    """Factor [B, 1, 1] that gives scores unit deviation, or less where they hardly deviate at all.

    Args:
        moments: of the memory.
        left_out: [B, M, N], leave-one-out scores of all prototypes.
        least: variance that is added in any case.

    Returns:
        The factor, and with it the scores of the examined prototypes, [B, 1, M', N]. 0 where no score is
        known, of a single demo: nothing says what is large, and its class has no other beside it.
    """
    known = (
        moments.used[..., None]
        * (moments.size[:, None] > 0)
        * (1 - moments.alone[..., None] * moments.target)
    )
    total = known.sum((1, 2), keepdim=True)
    number = total.clamp(min=1)
    mean = (left_out * known).sum((1, 2), keepdim=True) / number
    variance = ((left_out - mean).square() * known).sum((1, 2), keepdim=True) / number
    # Two demos in all give scores that are all alike: their deviation says nothing of what is large.
    scale = (variance + LEAST_DEVIATION * mean.square() + least).rsqrt() * (total > 0)
    return scale, torch.where(known > 0, left_out * scale, NEVER)[:, None, : moments.asked]
