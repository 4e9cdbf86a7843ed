"""All experts of the universal read-out on the memory of one stream, by LAPACK and numba.

The same functions as `experts` and `groups` define, several times faster: each inner product is made of one
Cholesky factor, without a product of large matrices that another one contains; while prototypes are demos and
fewer than dimensions everything but the queries' columns is had from their Gram matrix; and five Gaussian
kernels share one exponential. tests/readouts/test_compiled.py compares.

Prototypes are taken in reverse order, without free places: those that are examined then come last, and the
last block of an inverse is cheap, since it is the inverse of what the last block of the factor makes alone.

Shape legend: M = prototypes, A = those that are examined, D = dimensions, N = classes, G = groups,
K = columns of the whitening factor, E = experts.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from autocl.readouts import cholesky, examining, experts, kernel, merging
from autocl.readouts.experts import KERNELS, LEAST_COSINE, NAMES, PENALTY, PROPORTION, SHARP, SHRINKAGE
from autocl.readouts.groups import REACH
from autocl.readouts.moments import Moments

Array = npt.NDArray[np.float64]
Arrays = tuple[Any, ...]


class Prepared(NamedTuple):
    """What the experts say of prototypes that were left out, and what queries are compared with."""

    left_out: Tensor
    """[1, E, M', N], as `Experts.left_out`."""
    plan: tuple[Arrays, Arrays]
    """For `kernel.answer`."""


class _Linear(NamedTuple):
    """As `experts.Linear`."""

    columns: Array
    """[G, D]."""
    offset: Array
    """[G]."""
    owner: npt.NDArray[np.int64]
    """[G]."""
    origin: Array | None
    """[D]."""
    scale: float
    left_out: Array
    """[A, N]."""


@dataclass(frozen=True)
class _Points:
    """The prototypes of a stream."""

    moments: Moments
    prototype: Array
    """[M, D]."""
    weight: Array
    """[M]."""
    label: npt.NDArray[np.int64]
    """[M]."""
    target: Array
    """[M, N], one-hot."""
    asked: int
    """A."""
    mean: Array
    """[D]."""
    spread: float
    second: Array | None
    """[D, D]; None: every prototype is one demo, and the Gram matrix serves."""
    centred: Array
    """[M, D], prototypes less their mean."""
    gram: Array
    """[M, M], of those."""

    @staticmethod
    def of(moments: Moments, place: npt.NDArray[np.int64]) -> "_Points":
        memory, mean = moments.memory, moments.mean[0, 0].numpy()
        prototype = memory.prototype[0].numpy()[place]
        centred = prototype - mean
        return _Points(
            moments=moments,
            prototype=prototype,
            weight=memory.weight[0].numpy()[place],
            label=memory.label[0].numpy()[place],
            target=moments.target[0].numpy()[place],
            asked=int((place < moments.asked).sum()),
            mean=mean,
            spread=float(moments.spread),
            second=None if moments.second is None else moments.second[0].numpy(),
            centred=centred,
            gram=centred @ centred.T,
        )

    @property
    def last(self) -> slice:
        """The examined ones."""
        return slice(len(self.label) - self.asked, None)

    @property
    def doubt(self) -> Array:
        """[M], share of a kernel's noise; a prototype of many demos has little."""
        share: Array = np.maximum(1 / np.maximum(self.weight, 1), experts.LEAST_NOISE)
        return share

    def distances(self) -> Array:
        """[M, M], squared."""
        square = self.gram.diagonal()
        return square[:, None] + square - 2 * self.gram


def prepare(moments: Moments) -> Prepared:
    """Every expert of `experts.NAMES` on the memory of one stream, which holds at least one demo."""
    place = np.flatnonzero(moments.memory.label[0].numpy() >= 0)[::-1]
    points = _Points.of(moments, place)
    distance = points.distances()
    classes = _Groups.of(points, points.label, np.arange(points.target.shape[1]))
    by_class = _discriminants(points, classes)
    sharp = _discriminants(points, classes, SHARP)
    linear = [_ridge(points), by_class, sharp, *_of_clusters(points, distance, by_class)]
    linear += [_cosines(points, points.mean), _cosines(points, np.zeros_like(points.mean))]
    base, noise = KERNELS[0][0], np.array([noise for _, noise in KERNELS])
    near = _solve_kernels(points, distance, base / (4 * points.spread), noise, kernel.CUBES)
    white, whitened = _whitened(points, classes)

    left_out = np.zeros((len(NAMES), moments.asked, points.target.shape[1]))
    rows = place[points.last]
    for e, said in enumerate([*near.left_out, *white.left_out, *(one.left_out for one in linear)]):
        left_out[e, rows] = said
    return Prepared(torch.from_numpy(left_out)[None], _plan(points, near, white, whitened, linear))


class _Groups(NamedTuple):
    """As `groups.Groups`."""

    number: npt.NDArray[np.int64]
    """[M], the group of each prototype."""
    owner: npt.NDArray[np.int64]
    """[G]."""
    size: Array
    """[G], demos."""
    centre: Array
    """[G, D]; zero for a group without members."""
    apart: Array
    """[M, D], what the demos of each prototype are away from its centre, times the root of their number."""

    @staticmethod
    def of(points: _Points, number: npt.NDArray[np.int64], owner: npt.NDArray[np.int64]) -> "_Groups":
        size = np.bincount(number, points.weight, len(owner)).astype(np.float64)
        member = np.zeros((len(owner), len(number)))
        member[number, np.arange(len(number))] = points.weight / size[number]
        centre = member @ points.prototype
        apart = (points.prototype - centre[number]) * np.sqrt(points.weight)[:, None]
        return _Groups(number, owner, size, centre, apart)

    def scatter(self, points: _Points) -> Array:
        """[D, D], of all demos around the centres."""
        assert points.second is not None
        rows = self.centre * np.sqrt(self.size)[:, None]
        return points.second - rows.T @ rows


def _ridge(points: _Points) -> _Linear:
    """As `experts.ridge`."""
    size = points.moments.size[0].numpy()
    usual = size / max(size.sum(), 1.0)
    x, last, weight = points.centred, points.last, points.weight
    level = PENALTY * points.spread
    if points.second is None:
        factor = cholesky.factor(points.gram, level)
        columns = cholesky.solve(factor, (points.target - usual).T) @ x
        leverage = 1 - level * cholesky.inverse_diagonal(factor, points.asked)
    else:
        factor = cholesky.factor(points.second - weight.sum() * np.outer(points.mean, points.mean), level)
        columns = cholesky.solve(factor, (weight[:, None] * (points.target - usual)).T @ x)
        leverage = weight[last] * _squares(cholesky.halfway(factor, x[last]))
    leverage = np.minimum(leverage, 0.999)[:, None]
    said = x[last] @ columns.T + usual
    left_out = (said - leverage * points.target[last]) / (1 - leverage)
    return _Linear(columns, usual - columns @ points.mean, np.arange(len(size)), None, 1.0, left_out)


def _discriminants(points: _Points, groups: _Groups, prior: float = SHRINKAGE) -> _Linear:
    """As `experts.discriminants`."""
    number, owner, size, centre, apart = groups
    D = points.prototype.shape[1]
    within = _squares(apart).sum() + float(points.moments.memory.scatter_trace)
    level = (prior * points.spread + PROPORTION * within) / D
    if points.second is None:
        factor = cholesky.factor(apart @ apart.T, level)
        columns = (centre - cholesky.solve(factor, centre @ apart.T) @ apart) / level
    else:
        factor = cholesky.factor(groups.scatter(points), level)
        columns = cholesky.solve(factor, centre)
    among = centre @ columns.T
    norm = among.diagonal()
    cross = points.prototype @ columns.T
    if points.second is None:
        # ⟨x, x⟩ from that of x less its centre, which is a diagonal element: no further system to solve.
        own = cross[np.arange(len(number)), number]
        square = (1 - level * cholesky.inverse_diagonal(factor, len(number))) + 2 * own - norm[number]
    else:
        square = _squares(cholesky.halfway(factor, points.prototype))
    said = np.empty(points.target.shape)
    examining.discriminate(cross, among, square, points.weight, size, number, owner, said)
    offset = np.where(size > 0, -0.5 * norm, -np.inf)
    return _Linear(columns, offset, owner, None, *_normalised(points, said, 1e-12))


def _of_clusters(points: _Points, distance: Array, by_class: _Linear) -> list[_Linear]:
    """Discriminants of clusters within classes; see `groups.clusters_of`."""
    number, owner = np.zeros((2, len(REACH), len(distance)), np.int64)
    back = slice(None, None, -1)  # In the order of their places, which decides between equals.
    count = merging.clusters(
        distance[back, back], points.label[back], np.array(REACH), number[:, back], owner
    )
    found = {len(set(points.label)): by_class}
    for r, G in enumerate(count):  # Cuts of one tree: as many clusters are the same clusters.
        if G not in found:
            found[G] = _discriminants(points, _Groups.of(points, number[r], owner[r, :G]))
    return [found[G] for G in count]


def _cosines(points: _Points, origin: Array) -> _Linear:
    """As `experts.cosines`."""
    columns = np.empty((points.target.shape[1], len(origin)))
    x, own = np.empty_like(points.prototype), np.empty(len(points.label))
    examining.directions(points.prototype, origin, points.weight, points.label, x, columns, own)
    said = x @ columns.T
    said[np.arange(len(own)), points.label] = own
    owner = np.arange(len(columns))
    return _Linear(columns, -columns @ origin, owner, origin, *_normalised(points, said, LEAST_COSINE**2))


def _normalised(points: _Points, said: Array, least: float) -> tuple[float, Array]:
    """As `experts._normalised`."""
    seen = points.moments.size[0].numpy() > 0
    scale = examining.normalise(said, points.label, seen, experts.LEAST_DEVIATION, least, experts.NEVER)
    return scale, said[points.last]


class _Kernels(NamedTuple):
    """As `experts.Kernels`."""

    rate: float
    """Of the first kernel; `kernel.CUBES` says those of the others."""
    dual: Array
    """[E, M, N]."""
    left_out: Array
    """[E, A, N]."""


def _solve_kernels(
    points: _Points, distance: Array, rate: float, noise: Array, cubes: npt.NDArray[np.int64]
) -> _Kernels:
    """Weights of Gaussian kernels and what they say of prototypes that were left out.

    Args:
        points: M prototypes.
        distance: [M, M], squared; it is used up.
        rate: of the first kernel.
        noise: [E].
        cubes: [E], how often the kernel before is taken to the third power.
    """
    M, N = points.target.shape
    dual, left_out = np.empty((len(noise), M, N)), np.empty((len(noise), points.asked, N))
    examining.gaussian(distance, rate)
    factor = np.empty((M, M))  # One for all kernels: new memory is slow.
    for e in range(len(noise)):
        examining.noisy(distance, cubes[e], 1 + noise[e] * points.doubt, factor)
        cholesky.factor_in_place(factor)
        dual[e] = cholesky.solve(factor, points.target.T).T
        inverse = cholesky.inverse_diagonal(factor, points.asked)
        left_out[e] = points.target[points.last] - dual[e, points.last] / inverse[:, None]
    return _Kernels(rate, dual, left_out)


class _Whitened(NamedTuple):
    """The inner product of `experts.whitened_kernel`, and the prototypes in it."""

    factor: Array
    """[D, K], as `experts.InnerProduct.factor`."""
    level: float | None
    columns: Array
    """[M, D]."""
    square: Array
    """[M]."""


def _whitened(points: _Points, classes: _Groups) -> tuple[_Kernels, _Whitened]:
    """As `experts.whitened_kernel`."""
    P, apart, n = points.prototype, classes.apart, points.weight.sum()
    level = experts.WHITENING * points.spread * n / P.shape[1]
    if points.second is None:
        root = cholesky.factor(apart @ apart.T, level)
        factor = cholesky.halfway(root, apart.T)
        inside = P @ factor
        square = (_squares(P) - _squares(inside)) / level
        columns = (P - inside @ factor.T) * (2 / level)
        at_mean = (points.mean @ points.mean - ((points.mean @ factor) ** 2).sum()) / level
    else:
        factor = cholesky.inverse_factor(cholesky.factor(classes.scatter(points), level))
        inside = P @ factor
        square = _squares(inside)
        columns = 2 * (inside @ factor.T)
        at_mean = ((points.mean @ factor) ** 2).sum()
    pairs = n * (points.weight @ square) - n * n * at_mean
    spread = pairs / (n * max(n - 1, 1.0))
    spread = spread if spread > 1e-9 else 1.0
    rate, noise = experts.WHITENED_KERNEL
    rate /= 4 * spread
    products = P @ (0.5 * columns).T
    near = square[:, None] + square - 2 * products
    moved = _moved(points, classes, products, columns)
    apart = np.exp(-rate * np.maximum(near[points.last] + moved, 0))
    own = np.arange(points.asked), np.arange(len(P))[points.last]
    apart[own] = 0.0
    examining.gaussian(near, rate)
    root = np.empty_like(near)
    examining.noisy(near, 0, 1 + noise * points.doubt, root)
    cholesky.factor_in_place(root)
    dual = cholesky.solve(root, points.target.T).T
    inverse = cholesky.inverse_rows(root, points.asked)
    owed = np.einsum("am,am->a", apart, inverse) / inverse[own]
    left_out = apart @ dual - owed[:, None] * dual[points.last]
    level = None if points.second is not None else level
    return _Kernels(rate, dual[None], left_out[None]), _Whitened(factor, level, columns, square)


def _moved(points: _Points, classes: _Groups, products: Array, columns: Array) -> Array:
    """As `experts._moved`, [A, M].

    Args:
        points: M prototypes.
        classes: their means.
        products: [M, M], inner products of prototypes.
        columns: [M, D], as `_Whitened.columns`.
    """
    number, last = classes.number, points.last
    of_centres = 0.5 * classes.centre @ columns.T  # [N, M], with prototypes
    share = points.weight / classes.size[number]
    at_own = of_centres[number, np.arange(len(number))]
    norm = np.bincount(number, share * at_own, len(classes.size))
    along = products[last] - of_centres[number[last]]
    itself = along[np.arange(points.asked), np.arange(len(number))[last]]
    length = itself - at_own[last] + norm[number[last]]
    weight, size = points.weight[last], classes.size[number[last]]
    lost = weight * size / np.maximum(size - weight, 1)
    gain = lost / (1 - np.minimum(lost * length, 0.999))
    moved: Array = gain[:, None] * (itself[:, None] - along) ** 2
    return moved


def _plan(
    points: _Points, near: _Kernels, white: _Kernels, whitened: _Whitened, linear: list[_Linear]
) -> tuple[Arrays, Arrays]:
    """Everything that queries are compared with; all columns beside each other in one matrix."""
    P = points.prototype
    M, D = P.shape
    # Places for whole registers: those that are added are infinitely far from everything.
    whole, K = M + -M % examining.LANES, whitened.factor.shape[1]
    columns = [(0, 2 * P), (whole, whitened.columns), (2 * whole, whitened.factor.T)]
    at = 2 * whole + K
    for one in linear:
        columns.append((at, one.columns))
        at += len(one.columns)
    wide = np.zeros((at + -at % kernel.TILE, D))
    for start, rows in columns:
        wide[start : start + len(rows)] = rows
    tiles = np.ascontiguousarray(wide.reshape(-1, kernel.TILE, D).transpose(0, 2, 1))

    def filled(values: Array, rest: float) -> Array:
        out = np.full((*values.shape[:-1], whole), rest)
        out[..., :M] = values
        return out

    one_over = None if whitened.level is None else 1 / whitened.level
    kernels = (
        *(filled(_squares(P), np.inf), near.rate, filled(near.dual.transpose(0, 2, 1), 0.0)),
        filled(whitened.square, np.inf),
        (0.0, 1.0) if one_over is None else (one_over, -one_over),
        *(white.rate, filled(white.dual[0].T, 0.0)),
    )
    groups = (
        np.concatenate([one.offset for one in linear]),
        np.concatenate([one.owner for one in linear]),
        np.repeat(np.arange(len(linear)), [len(one.offset) for one in linear]),
        np.stack([np.zeros(D) if one.origin is None else one.origin for one in linear]),
        np.array([one.origin is not None for one in linear]),
        np.array([one.scale for one in linear]),
        points.spread,
    )
    return (tiles, K, *kernels), groups


def _squares(rows: Array) -> Array:
    """Squared lengths."""
    squares: Array = np.einsum("md,md->m", rows, rows)
    return squares
