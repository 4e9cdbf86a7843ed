"""A learner's state as a picture: every number a pixel, orange above zero and blue below."""

import io
import math

import numpy as np
import numpy.typing as npt
from PIL import Image

from autocl.estimator.state import ClassifierState

SIDE = 192
"""Pixels a side; larger states are shown by means of neighbours."""
WARM, COLD, GROUND = (255, 150, 50), (60, 140, 255), (16, 18, 24)


def portrait(memory: ClassifierState | None) -> bytes:
    """A PNG of SIDE×SIDE pixels; dark all over when nothing was learned.

    Numbers of very different size share the picture: each tensor is shown relative to its own typical size.
    """
    values = np.zeros(SIDE * SIDE) if memory is None else _values(memory)
    share = np.abs(values)[:, None]
    ends = np.where(values[:, None] > 0, np.array(WARM), np.array(COLD))
    pixels = np.array(GROUND) * (1 - share) + ends * share
    side = math.isqrt(len(values))
    image = Image.fromarray(pixels.reshape(side, side, 3).astype(np.uint8))
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def _values(memory: ClassifierState) -> npt.NDArray[np.float64]:
    """[SIDE²] in -1 … 1."""
    parts = []
    for state in memory.members:
        for tensor in state.tensors.values():
            x = tensor.detach().double().cpu().numpy().ravel()
            size = math.sqrt(float(np.mean(x**2))) if x.size else 0.0
            parts.append(np.tanh(x / size) if size else x)
    flat = np.concatenate(parts)
    edges = np.linspace(0, len(flat), SIDE * SIDE + 1).astype(int)
    at = np.minimum(edges[:-1], len(flat) - 1)  # of a small state some numbers are shown twice
    return np.add.reduceat(flat, at) / np.maximum(np.diff(edges), 1)
