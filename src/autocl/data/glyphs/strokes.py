"""What makes a glyph the glyph it is: one to four strokes, each a line, a bend, a bow or a corner.

Shape legend: n = glyphs, S = strokes a glyph can have, P = points along a stroke. Coordinates: x to the
right, y down, the glyph within [-1, 1].
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autocl.data.glyphs.noise import Floats, normals, uniforms

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


@dataclass(frozen=True)
class Shapes:
    """The strokes of n glyphs."""

    points: Floats
    """[n, S, P, 2]."""
    present: npt.NDArray[np.bool_]
    """[n, S]: which strokes the glyph has."""


def shapes(seed: int, glyphs: npt.NDArray[np.int64]) -> Shapes:
    """The strokes of each glyph, a pure function of (seed, glyph number).

    Args:
        seed: chooses the family.
        glyphs: int64 [n].
    """
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
    return Shapes(points=_fit(points, present, plan), present=present)


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
