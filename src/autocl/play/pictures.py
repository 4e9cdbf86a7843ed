"""Pictures that the server makes: digits to teach in the tour, and a learner's state.

The tour: scikit-learn's digits, two new classes at a time. They come as gray smudges that fill their frame.
To a learner a crisp drawing with air around it is something else: whoever drew a digit after the tour heard
"none of these". So they are shown as a pen would have drawn them. (`python -m benchmarks.drawn` measures it,
and is what the numbers here were chosen with.)
"""

import base64
import math
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from autocl.data.loading import load
from autocl.estimator.state import ClassifierState
from autocl.pictures import Pixels, png

TASKS = (("0", "1"), ("2", "3"), ("4", "5"), ("6", "7"), ("8", "9"))
TAUGHT, HELD_BACK = 12, 15
"""Pictures of each digit: to learn, from the training part; to ask about, from the test part."""
EDGE, MARGIN = 96, 1.25
"""Pixels a side, and how much longer than the ink that is: as on the drawing board (page/pad.js)."""
INK, STEEP = 140, 8
"""The gray at the edge of a stroke, and how many times as steep the edge becomes."""


def tour_stream() -> dict[str, Any]:
    """Tasks in order; each has examples to teach, the two digits taking turns, and examples held back."""
    rng = np.random.default_rng(0)
    taught, held_back = _drawn("train", TAUGHT, rng), _drawn("test", HELD_BACK, rng)
    tasks = []
    for task in TASKS:
        turns = [{"label": d, "image": taught[d][i]} for i in range(TAUGHT) for d in task]
        asked = [{"label": d, "image": image} for d in task for image in held_back[d]]
        tasks.append({"classes": list(task), "teach": turns, "held_back": asked})
    return {"title": "scikit-learn's digits, two at a time", "tasks": tasks}


def _drawn(split: str, n: int, rng: np.random.Generator) -> dict[str, list[str]]:
    """n pictures of each class, drawn at random, as addresses of PNG files."""
    digits = load("digits", split, size=8)  # as they are
    drawn = {}
    for c, name in enumerate(digits.classes):
        rows = digits.starts[c] + rng.permutation(digits.counts[c])[:n]
        files = [png(Image.fromarray(as_drawn(digits.images[row, 0]))) for row in rows]
        drawn[name] = [f"data:image/png;base64,{base64.b64encode(file).decode('ascii')}" for file in files]
    return drawn


def as_drawn(digit: Pixels) -> Pixels:
    """A digit [H, W], light on dark, as the drawing board would have sent it: [EDGE, EDGE]."""
    framed = Image.fromarray(np.pad(digit, 2))  # strokes at the border get a round end
    large = np.asarray(framed.resize((2 * EDGE, 2 * EDGE), Image.Resampling.BICUBIC), np.float32)
    crisp = (128 + STEEP * (large - INK)).clip(0, 255).astype(np.uint8)
    ink = Image.fromarray(crisp).getbbox() or (0, 0, 2 * EDGE, 2 * EDGE)
    side = MARGIN * max(ink[2] - ink[0], ink[3] - ink[1])
    x, y = (ink[0] + ink[2]) / 2, (ink[1] + ink[3]) / 2
    box = (round(x - side / 2), round(y - side / 2), round(x + side / 2), round(y + side / 2))
    return np.asarray(Image.fromarray(crisp).crop(box).resize((EDGE, EDGE), Image.Resampling.BOX))


SIDE = 192
"""Pixels a side; larger states are shown by means of neighbours."""
WARM, COLD, GROUND = (255, 150, 50), (60, 140, 255), (16, 18, 24)


def portrait(memory: ClassifierState | None) -> bytes:
    """A state as a PNG of SIDE×SIDE pixels: every number a pixel, orange above zero and blue below.

    It is dark all over when nothing was learned. Numbers of very different size share the picture: each
    tensor is shown relative to its own typical size.
    """
    values = np.zeros(SIDE * SIDE) if memory is None else _values(memory)
    share = np.abs(values)[:, None]
    ends = np.where(values[:, None] > 0, np.array(WARM), np.array(COLD))
    pixels = np.array(GROUND) * (1 - share) + ends * share
    side = math.isqrt(len(values))
    return png(Image.fromarray(pixels.reshape(side, side, 3).astype(np.uint8)))


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
