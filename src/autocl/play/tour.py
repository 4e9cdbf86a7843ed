"""The tour: scikit-learn's digits, two new classes at a time. Nothing is downloaded."""

import base64
import io
from typing import Any

import numpy as np
from PIL import Image

from autocl.data.loading import load
from autocl.pictures import Pixels

TASKS = (("0", "1"), ("2", "3"), ("4", "5"), ("6", "7"), ("8", "9"))
TAUGHT, HELD_BACK = 12, 15
"""Pictures of each digit: to learn, from the training part; to ask about, from the test part."""


def tour_stream(seed: int = 0) -> dict[str, Any]:
    """Tasks in order; each has examples to teach, the two digits taking turns, and examples held back.

    Args:
        seed: which pictures are drawn.
    """
    rng = np.random.default_rng(seed)
    taught, held_back = _drawn("train", TAUGHT, rng), _drawn("test", HELD_BACK, rng)
    tasks = []
    for task in TASKS:
        turns = [{"label": d, "image": taught[d][i]} for i in range(TAUGHT) for d in task]
        asked = [{"label": d, "image": image} for d in task for image in held_back[d]]
        tasks.append({"classes": list(task), "teach": turns, "held_back": asked})
    return {"title": "scikit-learn's digits, two at a time", "tasks": tasks}


def _drawn(split: str, n: int, rng: np.random.Generator) -> dict[str, list[str]]:
    """n pictures of each class, drawn at random, as addresses of PNG files."""
    digits = load("digits", split)
    drawn = {}
    for c, name in enumerate(digits.classes):
        rows = digits.starts[c] + rng.permutation(digits.counts[c])[:n]
        drawn[name] = [_address(digits.images[row, 0]) for row in rows]
    return drawn


def _address(pixels: Pixels) -> str:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode("ascii")
