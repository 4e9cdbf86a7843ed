"""Random draws without replacement: classes and images from whole sets or from a pool.

Shape legend: B = streams, R = rows of a draw, K = classes a source offers, U = images of a pool.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from autocl.data.stream import Task

IntArray = npt.NDArray[np.int64]
Rng = np.random.Generator

_SORTED_KEYS = 1 << 14
"""Up to so many keys, sorting them all takes less time than Floyd's k rounds of array operations."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ClassIndex:
    """Classes on offer; the images of class c are numbers first[c], …, first[c] + count[c] - 1."""

    first: IntArray
    """[K]."""
    count: IntArray
    """[K]."""

    def classes(self, rng: Rng, rows: int, k: int) -> IntArray:
        """k different classes for each row, [rows, k]."""
        return sample_without_replacement(rng, np.full(rows, len(self.first)), k)

    def images(self, rng: Rng, classes: IntArray, k: int) -> IntArray:
        """k different images of each class: [...] -> [..., k], in random order."""
        flat = classes.reshape(-1)
        chosen = self.first[flat, None] + sample_without_replacement(rng, self.count[flat], k)
        return chosen.reshape(*classes.shape, k)


def task_of(source: int, **arrays: IntArray | None) -> Task:
    """A task of B streams from its index and label arrays [B, …], by the names of `Task`'s fields."""
    tensors = {n: torch.from_numpy(np.ascontiguousarray(a)) for n, a in arrays.items() if a is not None}
    return Task(source=source, **tensors)  # type: ignore[arg-type]  # names and source are typed there


def sample_without_replacement(rng: Rng, n: IntArray, k: int) -> IntArray:
    """k different numbers out of range(n[r]) for every row r, in uniformly random order.

    Small draws sort random keys; large ones run Floyd's algorithm on all rows at once, whose cost depends on
    k only, so that drawing 17 of the 600 images of a class stays cheap.

    Args:
        rng: the generator that decides.
        n: int64 [R], each at least k.
        k: how many.

    Returns:
        int64 [R, k].
    """
    top = int(n.max(initial=0))
    if len(n) * top <= _SORTED_KEYS:
        keys = np.where(np.arange(top) < n[:, None], rng.random((len(n), top)), np.inf)
        return keys.argsort(axis=1)[:, :k]
    chosen = np.empty((len(n), k), np.int64)
    uniform = rng.random((len(n), k))
    for j in range(k):
        last = n - k + j
        pick = (uniform[:, j] * (last + 1)).astype(np.int64)
        taken = (chosen[:, :j] == pick[:, None]).any(axis=1)
        chosen[:, j] = np.where(taken, last, pick)
    # Floyd gives a uniform set in a biased order.
    return np.take_along_axis(chosen, permutations(rng, len(n), k), axis=1)


def permutations(rng: Rng, rows: int, k: int) -> IntArray:
    """A random permutation of range(k) for each row, [rows, k]."""
    return rng.random((rows, k)).argsort(axis=1)


def draw_pool(
    rng: Rng, sets: Sequence[ClassIndex], used: Sequence[int], *, classes: int, images: int
) -> tuple[dict[int, ClassIndex], IntArray]:
    """Draw `classes` classes of each used set and `images` images of each class.

    Args:
        rng: the generator that decides.
        sets: all sets, their images numbered one set after the other.
        used: the numbers of the sets that take part in this step, increasing.
        classes: how many classes of each set.
        images: how many images of each class.

    Returns:
        What each used set offers, its images numbered by their place in the pool; and the pool [U], set after
        set and class after class: U = len(used) * classes * images.
    """
    sources, drawn = {}, []
    for position, s in enumerate(used):
        chosen = sets[s].images(rng, sets[s].classes(rng, 1, classes)[0], images)
        drawn.append(chosen.reshape(-1))
        first = (position * classes + np.arange(classes)) * images
        sources[s] = ClassIndex(first=first, count=np.full(classes, images))
    return sources, np.concatenate(drawn)
