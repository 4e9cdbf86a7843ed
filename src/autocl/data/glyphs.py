"""Drawn glyphs: an endless family of invented characters, made by calculation.

What makes a glyph the glyph it is are one to four strokes, each a line, a bend, a bow or a corner. A drawing
of it is made by an unsteady hand, then a pen of some width on a grid of pixels: ink is dropped at the points
of each stroke, as much as the stroke is long there, spread with a small bell curve and cut off where it is
thin. That costs the same for every shape, and the edge of the bell curve is the anti-aliasing.

Shape legend: n = glyphs or drawings, S = strokes a glyph can have, P = points along a stroke, W = pixels a
side. Coordinates: x to the right, y down, the glyph within [-1, 1].
"""

import math

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

STROKES = 4
POINTS = 56
"""Enough that neighbouring points of the longest stroke are less than a pixel apart at 32×32."""

_COUNT = np.cumsum([0.18, 0.34, 0.30, 0.18])
"""One, two, three, four strokes; about the mix of Omniglot's alphabets."""
_KIND = np.cumsum([0.30, 0.22, 0.26, 0.22])
"""Line, bend, bow, corner."""
_ATTACHED = 0.7
"""Share of strokes that start on an earlier one; the others stand apart."""
_T = np.linspace(0, 1, POINTS, dtype=np.float32)
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
    points, present = _strokes_of(seed, kinds)
    out = np.empty((len(which), size, size), np.uint8)
    for at in range(0, len(which), _CHUNK):
        part = slice(at, at + _CHUNK)
        key = (seed, which[part], turn[part] + 1)
        rows = position[part]
        out[part] = _render(_by_hand(points[rows], key), present[rows], key, size)
    return out


def uniforms(keys: tuple[npt.ArrayLike, ...], count: int) -> Floats:
    """Uniform numbers in [0, 1).

    Args:
        keys: integers or int arrays that broadcast to [n]: what the numbers depend on, and all they do.
        count: numbers per key.

    Returns:
        float32 [n, count].
    """
    state = np.zeros(1, np.uint64)
    for key in keys:
        state = _mix(state + np.atleast_1d(np.asarray(key)).astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15))
    steps = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return (_mix(state[:, None] + steps) >> np.uint64(40)).astype(np.float32) / np.float32(1 << 24)


def normals(keys: tuple[npt.ArrayLike, ...], count: int) -> Floats:
    """Standard normal numbers; arguments and shape as for `uniforms`."""
    pairs = (count + 1) // 2
    u = uniforms(keys, 2 * pairs)
    radius = np.sqrt(-2 * np.log(1 - u[:, :pairs]))
    angle = 2 * np.pi * u[:, pairs:]
    both = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return both[:, :count].astype(np.float32)


def _mix(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The finaliser of splitmix64: every bit of the input changes half of the output's."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _strokes_of(seed: int, glyphs: npt.NDArray[np.int64]) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """The strokes [n, S, P, 2] of glyphs [n] of a family, and which of them the glyph has, [n, S]."""
    n = len(glyphs)
    plan = uniforms((seed, glyphs, 0), 3)
    present = np.arange(STROKES) <= np.searchsorted(_COUNT, plan[:, :1] * _COUNT[-1])
    points = np.zeros((n, STROKES, POINTS, 2), np.float32)
    rows = np.arange(n)
    for s in range(STROKES):
        u = uniforms((seed, glyphs, s + 1), 8)
        g = normals((seed, glyphs, s + 11), 6)
        # A single straight line would be no character of its own: others are lines turned a little.
        alone = ~present[:, 1]
        u[:, 2] = np.where(alone, _KIND[0] + (1 - _KIND[0]) * u[:, 2], u[:, 2])
        stroke = _stroke(u, g)
        if s > 0:
            # Join: some point of an earlier stroke meets an end of this one; ends are likelier than middles.
            earlier = (u[:, 5] * s).astype(np.int64)
            spot = np.clip(1.5 * u[:, 6] - 0.25, 0, 1) * (POINTS - 1)
            joint = points[rows, earlier, spot.astype(np.int64)]
            apart = 0.75 * np.tanh(g[:, 4:6])
            own = np.where(u[:, 7] < 0.6, 0, POINTS // 2)
            at = np.where((uniforms((seed, glyphs, s + 21), 1) < _ATTACHED), joint, apart)
            stroke = stroke - stroke[rows, own][:, None] + at[:, None]
        points[:, s] = stroke
    return _fit(points, present, plan), present


def _stroke(u: Floats, g: Floats) -> Floats:
    """One stroke per glyph, centred somewhere near the origin: [n, P, 2]."""
    # Hands prefer upright, level and diagonal strokes.
    angle = np.floor(8 * u[:, 0]) * (np.pi / 4) + 0.14 * g[:, 0]
    length = 0.55 + 1.2 * u[:, 1]
    along = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    across = np.stack([-along[:, 1], along[:, 0]], axis=1)
    kind = np.searchsorted(_KIND, u[:, 2] * _KIND[-1])[:, None, None]

    t = (_T - 0.5)[None, :]
    bow = (0.35 + 0.4 * u[:, 3:4]) * np.sign(g[:, 1:2]) * (1 - 4 * t**2)  # one belly
    wave = (0.25 + 0.3 * u[:, 3:4]) * np.sign(g[:, 1:2]) * np.sin(2 * np.pi * t)  # two
    bent = np.where(u[:, 4:5] < 0.7, bow, wave)

    sweep = np.where(u[:, 4:5] < 0.35, 2 * np.pi, np.pi * (0.7 + u[:, 3:4])) * np.sign(g[:, 1:2])
    turn = angle[:, None] + sweep * t
    radius = 0.25 + 0.25 * u[:, 1:2]
    flat = np.exp(0.25 * g[:, 2:3])
    arc = np.stack([radius * flat * np.cos(turn), radius / flat * np.sin(turn)], axis=2)

    corner = 0.3 + 0.4 * u[:, 3:4]
    elbow = np.minimum(t + 0.5, corner) * length[:, None] * 1.3
    rest = np.maximum(t + 0.5 - corner, 0) * length[:, None] * 1.3
    bend = np.where(u[:, 4:5] < 0.5, np.pi / 2, 2.2) * np.sign(g[:, 1:2]) + 0.2 * g[:, 3:4]
    angular_along = elbow + rest * np.cos(bend)
    angular_across = rest * np.sin(bend)

    straight = t * length[:, None]
    amount = np.where(kind[..., 0] == 1, bent * length[:, None] * 0.6, 0.05 * g[:, 2:3] * (1 - 4 * t**2))
    a = np.where(kind[..., 0] == 3, angular_along, straight)
    b = np.where(kind[..., 0] == 3, angular_across, amount)
    framed = a[..., None] * along[:, None] + b[..., None] * across[:, None]
    return np.where(kind == 2, arc, framed).astype(np.float32)


def _fit(points: Floats, present: npt.NDArray[np.bool_], plan: Floats) -> Floats:
    """Centre each glyph and scale it to its class's size, keeping most of its proportions."""
    shown = present[:, :, None, None]
    low = np.where(shown, points, np.inf).min(axis=(1, 2))
    high = np.where(shown, points, -np.inf).max(axis=(1, 2))
    extent = np.maximum(high - low, 0.15)
    longest = extent.max(axis=1, keepdims=True)
    size = 0.58 + 0.22 * plan[:, 1:2]
    # Between keeping the shape (0) and filling the square (1).
    scale = 2 * size / (longest ** (1 - 0.35) * extent**0.35)
    fitted: Floats = (points - ((low + high) / 2)[:, None, None]) * scale[:, None, None]
    return fitted.astype(np.float32)


def _by_hand(ideal: Floats, key: tuple[npt.ArrayLike, ...]) -> Floats:
    """Each stroke a little off, the whole slanted and stretched, the paper warped: [n, S, P, 2]."""
    n = len(ideal)
    g = normals((*key, 1), 6 + 6 * STROKES)
    g, per_stroke = g[:, :6, None], g[:, 6:].reshape(n, STROKES, 6)
    x, y = ideal[..., 0], ideal[..., 1]

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
            moved, into = (ink * taps[:, step]).swapaxes(1, axis), out.swapaxes(1, axis)
            into[:, step:] += moved[:, :-step]
            into[:, :-step] += moved[:, step:]
        ink = out
    return ink
