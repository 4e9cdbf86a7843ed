"""A memory of constant size: labelled prototypes that stand for all demos, and the scatter around them.

While there is room every demo is a prototype of its own, so that nothing is lost of short streams. When the
memory is full, the two of one label that lie closest together become one (Ward's criterion), and what the
merger forgets is added to a scatter matrix. Prototypes and scatter together keep the first and second moments
of every demo exactly, however long the stream: sums, means, ridge regression and discriminant analysis lose
nothing by merging; only kernels see prototypes in the place of demos.

A quarter of the places keeps single demos for ever, drawn from the whole stream with equal chances (reservoir
sampling): merged prototypes are easier to tell apart than demos, so that only single ones can say how well a
classifier does.

Shape legend: B = streams, T = demos, M = prototypes, D = dimensions, N = classes.
"""

from collections.abc import Mapping
from functools import lru_cache
from math import isqrt
from typing import NamedTuple

import torch
from torch import Tensor

FREE = -1
"""Label of a place that holds nothing."""
SINGLE = 4
"""One place in so many, the first ones, keeps a single demo."""


PLACES = 256
"""Prototypes of a memory, unless twice the number of classes is more."""
LARGEST = 768
"""Longer features are projected to this many dimensions: the state grows with their square."""
UNIT_FROM = 32
"""Features at least this long are scaled to unit length, as embeddings are compared; shorter ones carry
information in their length."""


class Mergers(NamedTuple):
    """What T demos made a memory forget of the classes."""

    label: Tensor
    """[B, T], the class in which two prototypes became one when the demo came; FREE where none did."""
    row: Tensor
    """[B, T, D]: its outer product with itself is what the merger added to the scatter."""

    @staticmethod
    def none(y: Tensor, x: Tensor) -> "Mergers":
        """None yet, for demos x [B, T, D] with labels y [B, T]."""
        return Mergers(torch.full_like(y, FREE), torch.zeros_like(x))


class Memory(NamedTuple):
    """Prototypes of B streams; in the order in which their places were taken."""

    prototype: Tensor
    """[B, M, D], the mean of the demos that each stands for; zero where the place is free."""
    weight: Tensor
    """[B, M], how many demos that is."""
    label: Tensor
    """[B, M], int64; FREE where the place is free."""
    scatter: Tensor
    """[B, D (D + 1) / 2], sum over all demos of (x - prototype)(x - prototype)ᵀ: its lower triangle, row by
    row, since at 768 dimensions the other half would be a third of the memory."""

    @staticmethod
    def of(state: Mapping[str, Tensor]) -> "Memory":
        """The memory in a read-out's state."""
        return Memory(*(state[name] for name in Memory._fields))

    @staticmethod
    def empty(batch: int, places: int, like: Tensor) -> "Memory":
        """A memory without prototypes, for vectors such as `like` [..., D]."""
        D = like.shape[-1]
        return Memory(
            prototype=like.new_zeros(batch, places, D),
            weight=like.new_zeros(batch, places),
            label=torch.full((batch, places), FREE, dtype=torch.int64, device=like.device),
            scatter=like.new_zeros(batch, D * (D + 1) // 2),
        )

    @property
    def demos(self) -> Tensor:
        """Number of demos learned, [B]."""
        return self.weight.sum(1)

    @property
    def scatter_matrix(self) -> Tensor:
        """[B, D, D], the scatter as a matrix."""
        return unpacked(self.scatter)

    @property
    def scatter_trace(self) -> Tensor:
        """[B], the sum of its diagonal."""
        row = torch.arange(self.prototype.shape[-1], device=self.scatter.device)
        return self.scatter[:, row * (row + 3) // 2].sum(1)

    @property
    def sample(self) -> Tensor:
        """[B, M], true at prototypes that stand for the demos of the stream as they come.

        All of them before the first merger; then the single demos that are kept.
        """
        places = torch.arange(self.weight.shape[1], device=self.weight.device)
        kept = (places < self.weight.shape[1] // SINGLE) & (self.weight == 1)
        merged = (self.weight > 1).any(1, keepdim=True)
        return torch.where(merged, kept, self.label != FREE)

    def places_of(self, n_classes: int) -> Tensor:
        """[B, N], prototypes of each class."""
        held = (self.label != FREE).to(self.weight.dtype)
        return held.new_zeros(len(held), n_classes).scatter_add(1, self.label.clamp(min=0), held)

    def with_places(self, places: int) -> "Memory":
        """The same memory with more free places."""
        batch, have = self.weight.shape
        new = Memory.empty(batch, places - have, self.prototype)
        return Memory(
            torch.cat([self.prototype, new.prototype], 1),
            torch.cat([self.weight, new.weight], 1),
            torch.cat([self.label, new.label], 1),
            self.scatter,
        )

    def learn(self, x: Tensor, y: Tensor) -> "Memory":
        """Take in demos x [B, T, D] with labels y [B, T], in their order."""
        return self.learned(x, y)[0]

    def learned(self, x: Tensor, y: Tensor) -> tuple["Memory", Mergers]:
        """As `learn`, and what was forgotten for it."""
        if x.device.type == "cpu" and x.dtype == self.weight.dtype and not torch.is_grad_enabled():
            return self._learned_compiled(x, y)
        free = (self.label == FREE).sum(1)
        room = min(int(free.min()), x.shape[1])
        memory = self._append(x[:, :room], y[:, :room]) if room else self
        mergers = Mergers.none(y, x)
        if room == x.shape[1]:
            return memory, mergers
        if int(free.max()) > room:  # Every stream fills its own places before anything is merged.
            alone = zip(*(of.chunk(len(x)) for of in (*self, x, y)), strict=True)
            each = [Memory(*parts[:-2]).learned(*parts[-2:]) for parts in alone]
            memories, told = zip(*each, strict=True)
            return Memory(*map(torch.cat, zip(*memories, strict=True))), Mergers(
                *map(torch.cat, zip(*told, strict=True))
            )
        late = (x[:, room:], y[:, room:], mergers.label[:, room:], mergers.row[:, room:])
        streams = [_squeeze(*parts) for parts in zip(*memory, *late, strict=True)]
        return Memory(*(torch.stack(parts) for parts in zip(*streams, strict=True))), mergers

    def without(self, label: int) -> "Memory":
        """The memory without the prototypes of a label. The scatter is of all labels and stays."""
        keep = self.label != label
        return Memory(
            self.prototype * keep[..., None], self.weight * keep, self.label.where(keep, FREE), self.scatter
        )

    def _learned_compiled(self, x: Tensor, y: Tensor) -> tuple["Memory", Mergers]:
        """`learned` by a kernel that looks at pairs of one label only."""
        # Imported here because importing numba takes longer than importing all of autocl.
        from autocl.readouts import merging

        parts = [t.clone(memory_format=torch.contiguous_format) for t in self]
        mergers = Mergers.none(y.contiguous(), x.contiguous())
        arrays = [t.numpy() for t in (*parts, x.contiguous(), y.contiguous(), *mergers)]
        for b in range(len(x)):
            merging.learn(*(a[b] for a in arrays), SINGLE)
        return Memory(*parts), mergers

    def _append(self, x: Tensor, y: Tensor) -> "Memory":
        """Put demos into free places, lowest place first."""
        place = (self.label != FREE).to(torch.uint8).argsort(dim=1, stable=True)[:, : x.shape[1]]
        return Memory(
            self.prototype.scatter(1, place[..., None].expand_as(x), x),
            self.weight.scatter(1, place, torch.ones_like(x[..., 0])),
            self.label.scatter(1, place, y),
            self.scatter,
        )


def _squeeze(
    prototype: Tensor,
    weight: Tensor,
    label: Tensor,
    scatter: Tensor,
    x: Tensor,
    y: Tensor,
    of: Tensor,
    row: Tensor,
) -> tuple[Tensor, ...]:
    """Take demos x [T, D] into the full memory of one stream: each makes two of one label become one.

    The mergers are written to of [T] and row [T, D].
    """
    prototype, weight, label = (t.clone() for t in (prototype, weight, label))
    scatter = unpacked(scatter)
    singles, seen = len(weight) // SINGLE, int(weight.sum())
    p, w, a = prototype[singles:], weight[singles:], label[singles:]  # views: what follows changes the memory
    cost = _merge_cost(p, w, a, p, w, a)
    cost.fill_diagonal_(torch.inf)
    one = torch.ones(1, dtype=weight.dtype, device=weight.device)
    for t in range(len(x)):
        new = (x[t : t + 1], one, y[t : t + 1])
        place = _scrambled(seen + t) % (seen + t + 1)
        if place < singles:  # The demo stays single; the one that was there goes on.
            here = slice(place, place + 1)
            leaving = prototype[here].clone(), weight[here].clone(), label[here].clone()
            prototype[place], weight[place], label[place] = x[t], 1.0, y[t]
            new = leaving
        joining = _merge_cost(p, w, a, *new)[:, 0]
        i = int(joining.argmin())
        pair = int(cost.argmin())
        if joining[i] <= cost.flatten()[pair]:
            row[t] = _merge(p, w, scatter, i, new[0][0], float(new[1]))
            changed, of[t] = [i], a[i]
        else:
            i, j = divmod(pair, len(w))
            row[t] = _merge(p, w, scatter, i, p[j], float(w[j]))
            of[t] = a[i]
            p[j], w[j], a[j] = (part[0] for part in new)
            changed = [i, j]
        rows = _merge_cost(p[changed], w[changed], a[changed], p, w, a)
        cost[changed], cost[:, changed] = rows, rows.T
        cost[changed, changed] = torch.inf
    return prototype, weight, label, packed(scatter)


def _scrambled(n: int) -> int:
    """A number that looks random and depends on n alone, so that a stream gives the same state every time."""
    z = (n + 1) * 0x9E3779B97F4A7C15 % 2**64
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
    return z ^ z >> 31


def _merge_cost(p: Tensor, w: Tensor, a: Tensor, q: Tensor, v: Tensor, b: Tensor) -> Tensor:
    """Scatter that a merger of p [m, D] and q [n, D] adds, [m, n]; infinite for other labels."""
    distance = (p.square().sum(1)[:, None] + q.square().sum(1) - 2 * p @ q.T).clamp(min=0)
    return (distance * (w[:, None] * v / (w[:, None] + v))).masked_fill(a[:, None] != b, torch.inf)


def _merge(prototype: Tensor, weight: Tensor, scatter: Tensor, i: int, x: Tensor, n: float) -> Tensor:
    """Let prototype i stand for n more demos, whose mean is x. In place.

    Returns:
        The row [D] whose outer product is added to the scatter.
    """
    total = weight[i] + n
    step = x - prototype[i]
    spread = weight[i] * n / total
    scatter += spread * torch.outer(step, step)
    prototype[i] += step * (n / total)
    weight[i] = total
    return spread.sqrt() * step


def packed(matrix: Tensor) -> Tensor:
    """The lower triangle of a symmetric matrix [..., D, D], row by row, [..., D (D + 1) / 2].

    Example:
        >>> packed(torch.tensor([[1, 2, 4], [2, 3, 5], [4, 5, 6]]))
        tensor([1, 2, 3, 4, 5, 6])
    """
    place, _ = _triangle(matrix.shape[-1])
    return matrix.flatten(-2).index_select(-1, place.to(matrix.device))


def unpacked(triangle: Tensor) -> Tensor:
    """The matrix of which `packed` made this."""
    D = (isqrt(8 * triangle.shape[-1] + 1) - 1) // 2
    _, place = _triangle(D)
    return triangle.index_select(-1, place.to(triangle.device)).view(*triangle.shape[:-1], D, D)


@lru_cache(maxsize=8)
def _triangle(D: int) -> tuple[Tensor, Tensor]:
    """Where the numbers of the triangle are in a matrix [D, D], and where those of the matrix are in it."""
    with torch.inference_mode(False):  # They are kept, and gradients may pass later.
        row, column = torch.tril_indices(D, D)
        i, j = torch.arange(D)[:, None], torch.arange(D)
        low, high = torch.minimum(i, j), torch.maximum(i, j)
        return row * D + column, (high * (high + 1) // 2 + low).flatten()
