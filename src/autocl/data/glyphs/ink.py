"""From strokes to drawings: an unsteady hand, then a pen of some width on a grid of pixels.

A stroke is rendered by dropping ink at its points, each as much as the stroke is long there, spreading it
with a small bell curve and cutting off where it is thin. That costs the same for every shape, and the edge
of the bell curve is the anti-aliasing.

Shape legend: n = drawings, S = strokes, P = points of a stroke, W = pixels a side.
"""

import math

import numpy as np
import numpy.typing as npt

from autocl.data.glyphs.noise import Floats, normals, uniforms
from autocl.data.glyphs.strokes import STROKES, Shapes, shapes

_CHUNK = 512
"""Drawings at a time: keeps the intermediate arrays within the processor's cache."""
_WIDEST = 3.5
"""Pens are from 1 to this many pixels of a 32-pixel image wide: Omniglot's thin lines to MNIST's felt pen."""


def draw_glyphs(
    glyphs: npt.ArrayLike, drawings: npt.ArrayLike, *, seed: int = 0, size: int = 32
) -> npt.NDArray[np.uint8]:
    """Draw invented characters, each drawing a pure function of (seed, glyph, drawing).

    Args:
        glyphs: int [n], which character; any number from 0 on.
        drawings: int [n], the how-manieth drawing of it.
        seed: chooses the family of characters.
        size: W.

    Returns:
        uint8 [n, W, W], strokes bright on 0.

    Example:
        >>> draw_glyphs([0, 0, 1], [0, 1, 0]).shape
        (3, 32, 32)
    """
    which, turn = np.broadcast_arrays(np.asarray(glyphs, np.int64), np.asarray(drawings, np.int64))
    kinds, position = np.unique(which, return_inverse=True)
    known = shapes(seed, kinds)
    out = np.empty((len(which), size, size), np.uint8)
    for at in range(0, len(which), _CHUNK):
        part = slice(at, at + _CHUNK)
        key = (seed, which[part], turn[part] + 1)
        rows = position[part]
        drawn = _by_hand(Shapes(known.points[rows], known.present[rows]), key)
        out[part] = _render(drawn, known.present[rows], key, size)
    return out


def _by_hand(ideal: Shapes, key: tuple[npt.ArrayLike, ...]) -> Floats:
    """Each stroke a little off, the whole slanted and stretched, the paper warped: [n, S, P, 2]."""
    n = len(ideal.points)
    g = normals((*key, 1), 6 + 6 * STROKES)
    g, per_stroke = g[:, :6, None], g[:, 6:].reshape(n, STROKES, 6)
    x, y = ideal.points[..., 0], ideal.points[..., 1]

    # Strokes turn, stretch and shift about their own middle.
    cx, cy = x.mean(axis=2, keepdims=True), y.mean(axis=2, keepdims=True)
    angle = 0.09 * per_stroke[..., 0:1]
    sx, sy = 1 + 0.07 * per_stroke[..., 1:2], 1 + 0.07 * per_stroke[..., 2:3]
    dx, dy = (x - cx) * sx, (y - cy) * sy
    x = cx + dx - angle * dy + 0.035 * per_stroke[..., 3:4]
    y = cy + dy + angle * dx + 0.035 * per_stroke[..., 4:5]

    # A smooth warp of the plane: two long waves.
    phase = 2 * np.pi * uniforms((*key, 2), 4)[:, :, None, None]
    x = x + 0.06 * np.sin(2.1 * y + phase[:, 0]) + 0.03 * np.sin(3.7 * x + phase[:, 2])
    y = y + 0.06 * np.sin(2.1 * x + phase[:, 1]) + 0.03 * np.sin(3.7 * y + phase[:, 3])

    # Slant, size and place of the whole.
    angle, shear = 0.10 * g[:, 0:1], 0.12 * g[:, 1:2]
    grow = np.clip(0.09 * g[:, 2:3], -0.2, 0.2)
    stretch = 0.07 * g[:, 3:4]
    x, y = (
        (1 + grow + stretch) * (x + (shear - angle) * y) + 0.05 * g[:, 4:5],
        (1 + grow - stretch) * (y + angle * x) + 0.05 * g[:, 5:6],
    )
    return np.stack([x, y], axis=-1).astype(np.float32)


def _render(
    points: Floats, present: npt.NDArray[np.bool_], key: tuple[npt.ArrayLike, ...], size: int
) -> npt.NDArray[np.uint8]:
    """Ink of the strokes on a grid: uint8 [n, W, W]."""
    n = len(points)
    u = uniforms((*key, 3), 2)
    width = np.exp(u[:, 0] * math.log(_WIDEST)) * (size / 32)
    ink = _drop(points, present, size)
    # Dropping between pixels spreads by about 0.4 already; the rest is up to the bell curve.
    sigma = np.sqrt(np.maximum((width / 2.4) ** 2 - 0.16, 0.02))
    # The reach covers the widest pen, whichever pens are in this chunk: a drawing must not depend on others.
    ink = _spread(ink, sigma, reach=math.ceil(2.2 * _WIDEST / 2.4 * size / 32))
    # 1 in the middle of a straight stroke.
    ink *= (np.sqrt(2 * np.pi) * np.sqrt(sigma**2 + 0.16))[:, None, None].astype(np.float32)
    bright = (225 + 30 * u[:, 1]).astype(np.float32)[:, None, None]
    ink -= np.float32(0.22)
    ink *= bright / np.float32(0.45)
    np.clip(ink, 0, bright, out=ink)
    return ink.reshape(n, size, size).astype(np.uint8)


def _drop(points: Floats, present: npt.NDArray[np.bool_], size: int) -> Floats:
    """Ink per pixel: each point leaves as much as its stroke is long there, shared by four pixels."""
    n = len(points)
    steps = np.diff(points, axis=2) * np.float32(size / 2)
    long = np.sqrt((steps**2).sum(axis=-1)) * present[:, :, None]
    middle = (points[:, :, 1:] + points[:, :, :-1]) * np.float32(size / 4) + np.float32(size / 2 - 0.5)
    middle = np.clip(middle, 0, np.float32(size - 1.001))
    corner = middle.astype(np.int32)
    part = middle - corner
    base = (np.arange(n, dtype=np.int32) * size * size)[:, None, None]
    at = base + corner[..., 1] * size + corner[..., 0]
    right, down = part[..., 0], part[..., 1]
    lower, upper = long * down, long * (1 - down)
    total = n * size * size
    ink = np.zeros(total + size + 1, np.float64)
    for row, share in ((0, upper), (size, lower)):
        ink[row : row + total] += np.bincount(at.ravel(), (share * (1 - right)).ravel(), total)
        ink[row + 1 : row + 1 + total] += np.bincount(at.ravel(), (share * right).ravel(), total)
    return ink[:total].astype(np.float32).reshape(n, size, size)


def _spread(ink: Floats, sigma: npt.NDArray[np.floating], *, reach: int) -> Floats:
    """Convolve each image with a bell curve of its own width, first down, then across."""
    taps = np.exp(-0.5 * (np.arange(reach + 1) / sigma[:, None]) ** 2)
    taps /= taps[:, :1] + 2 * taps[:, 1:].sum(axis=1, keepdims=True)
    taps = taps.astype(np.float32)[:, :, None, None]
    for axis in (1, 2):
        out = ink * taps[:, 0]
        for step in range(1, reach + 1):
            moved = ink * taps[:, step]
            if axis == 1:
                out[:, step:] += moved[:, :-step]
                out[:, :-step] += moved[:, step:]
            else:
                out[:, :, step:] += moved[:, :, :-step]
                out[:, :, :-step] += moved[:, :, step:]
        ink = out
    return ink
