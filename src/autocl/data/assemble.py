"""From blocks in file order to images sorted by class, resized and with the channels asked for.

Shape legend: n = images, C = channels, S = size in pixels, K = classes.
"""

import math
import mmap
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image

from autocl.data.readers.block import Raw
from autocl.errors import DataError

_ROOM = 1 << 17
"""Bytes of images that are held, sorted and written together, about."""


@dataclass(frozen=True, kw_only=True)
class Arrays:
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


def _room(shape: tuple[int, ...]) -> npt.NDArray[np.uint8]:
    """An array in memory of its own, which the system gets back at once; small ones stay with malloc."""
    return np.frombuffer(mmap.mmap(-1, math.prod(shape)), np.uint8).reshape(shape)


class Collected:
    """Resized images in file order, ready to be handed out sorted by class.

    Held once; the sorted images are given in chunks, so that a consumer who writes them to a file never
    holds them a second time.
    """

    def __init__(self, raw: Raw, *, size: int, channels: int) -> None:
        self._rows = max(1, _ROOM // (channels * size * size))
        self._rooms: list[npt.NDArray[np.uint8]] = []
        parts, held = [], 0
        for images, part in raw.blocks:
            resized = resize(images, size, channels)
            parts.append(part)
            while len(resized):
                row = held % self._rows
                if row == 0:
                    self._rooms.append(_room((self._rows, channels, size, size)))
                fitting, resized = np.split(resized, [self._rows - row])
                self._rooms[-1][row : row + len(fitting)] = fitting
                held += len(fitting)
        labels = np.concatenate(parts) if parts else np.zeros(0, np.int64)
        counts = np.bincount(labels, minlength=len(raw.classes))
        if len(labels) == 0 or counts.min() == 0:
            empty = repr(raw.classes[int(counts.argmin())]) if raw.classes else "any name"
            raise DataError(f"no image of a class {empty} was found: the data is incomplete, get it again")
        self.shape = (len(labels), channels, size, size)
        self.classes, self.notes = raw.classes, raw.notes
        self.starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])
        self.order = np.argsort(labels, kind="stable").astype(np.int64)

    def chunks(self) -> Iterator[npt.NDArray[np.uint8]]:
        """The images sorted by class, in file order within a class: [m, C, S, S], of one room's size."""
        for at in range(0, len(self.order), self._rows):
            room, row = np.divmod(self.order[at : at + self._rows], self._rows)
            chunk = np.empty((len(room), *self.shape[1:]), np.uint8)
            for number in np.unique(room):
                here = np.flatnonzero(room == number)
                chunk[here] = self._rooms[number][row[here]]
            yield chunk

    def arrays(self) -> Arrays:
        """Everything in memory."""
        images = np.empty(self.shape, np.uint8)
        for number, chunk in enumerate(self.chunks()):
            images[number * self._rows : number * self._rows + len(chunk)] = chunk
        return Arrays(
            images=images, starts=self.starts, order=self.order, classes=self.classes, notes=self.notes
        )
