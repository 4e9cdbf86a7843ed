"""From blocks in file order to one array sorted by class, resized and with the channels asked for.

Shape legend: n = images, C = channels, S = size in pixels, K = classes.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image

from autocl.data.readers.block import Raw
from autocl.errors import DataError


@dataclass(frozen=True, kw_only=True)
class Assembled:
    """The arrays of an image set."""

    images: npt.NDArray[np.uint8]
    """[n, C, S, S]."""
    starts: npt.NDArray[np.int64]
    """[K + 1]."""
    order: npt.NDArray[np.int64]
    """[n], position in file order."""
    classes: tuple[str, ...]
    notes: str


def resize(images: npt.NDArray[np.uint8], size: int, channels: int) -> npt.NDArray[np.uint8]:
    """Pillow's bilinear filter, which averages when it shrinks, as the authors' pipeline does.

    Args:
        images: [m, H, W] or [m, H, W, 3].
        size: S.
        channels: 1 (colour becomes luma) or 3 (gray is repeated).

    Returns:
        uint8 [m, channels, S, S].
    """
    out = np.empty((len(images), channels, size, size), np.uint8)
    gray = images.ndim == 3
    if images.shape[1:3] == (size, size) and gray == (channels == 1):
        out[:] = images[:, None] if gray else images.transpose(0, 3, 1, 2)
        return out
    for row, image in enumerate(images):
        picture = Image.fromarray(np.ascontiguousarray(image))
        if channels == 1 and not gray:
            picture = picture.convert("L")
        if picture.size != (size, size):
            picture = picture.resize((size, size), Image.Resampling.BILINEAR)
        pixels = np.asarray(picture)
        out[row] = pixels if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
    return out


def assemble(
    raw: Raw,
    *,
    size: int,
    channels: int,
    allocate: Callable[[tuple[int, ...]], npt.NDArray[np.uint8]] = lambda shape: np.empty(shape, np.uint8),
) -> Assembled:
    """Read all blocks, resize each as it comes, and sort by class, keeping file order within a class.

    Holds the resized images once, besides what `allocate` makes: twice the decoded size at most.

    Args:
        raw: what a reader gave.
        size: S.
        channels: C, 1 or 3.
        allocate: makes the array for the result, e.g. in a file.
    """
    blocks, parts = [], []
    for images, labels in raw.blocks:
        blocks.append(resize(images, size, channels))
        parts.append(labels)
    labels = np.concatenate(parts) if parts else np.zeros(0, np.int64)
    counts = np.bincount(labels, minlength=len(raw.classes))
    if len(labels) == 0 or counts.min() == 0:
        empty = raw.classes[int(counts.argmin())] if raw.classes else "any class"
        raise DataError(f"no image of class {empty!r} was found: the data is incomplete, get it again")
    order = np.argsort(labels, kind="stable").astype(np.int64)
    row_of = np.empty_like(order)
    row_of[order] = np.arange(len(order))
    out = allocate((len(labels), channels, size, size))
    at = 0
    blocks.reverse()
    while blocks:
        block = blocks.pop()
        out[row_of[at : at + len(block)]] = block
        at += len(block)
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])
    return Assembled(images=out, starts=starts, order=order, classes=raw.classes, notes=raw.notes)
