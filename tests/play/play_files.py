"""Image files for tests of the playground."""

import base64
import io

import numpy as np
from PIL import Image


def png(seed: int, side: int = 20) -> bytes:
    """An image file of noise."""
    pixels = np.random.default_rng(seed).integers(0, 256, (side, side), np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def base64_of(data: bytes) -> str:
    return base64.b64encode(data).decode()


def lesson(*examples: tuple[str, int]) -> dict:
    """Body of `learn`: labels, and seeds of pictures."""
    return {"examples": [{"label": label, "image": base64_of(png(seed))} for label, seed in examples]}


def decoded(seed: int, side: int = 20) -> np.ndarray:
    """The pixels of `png(seed)`."""
    return np.asarray(Image.open(io.BytesIO(png(seed, side))))
