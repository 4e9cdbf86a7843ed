"""Image files: one picture, or a strip of equal pictures, from bytes to uint8."""

import io
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt
from PIL import Image


def decode(data: bytes | Path | IO[bytes], mode: str) -> npt.NDArray[np.uint8]:
    """Pixels of one image file.

    Args:
        data: the file's bytes, its path, or an open file.
        mode: "L" for [H, W] gray, "RGB" for [H, W, 3].
    """
    with Image.open(io.BytesIO(data) if isinstance(data, bytes) else data) as image:
        return np.asarray(image.convert(mode))


def cut_strip(strip: npt.NDArray[np.uint8], count: int) -> npt.NDArray[np.uint8]:
    """Pictures stacked top to bottom: [count·W, W, 3] -> [count, W, W, 3]."""
    height, width = strip.shape[:2]
    if height != count * width:
        raise ValueError(f"a strip of {width}×{height} pixels does not hold {count} square pictures")
    return strip.reshape(count, width, width, 3)
