"""Picture files and Pillow images, to upright RGB of a sensible size."""

from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "PPM")
"""What is opened. Pillow knows many more, and each is a decoder that strangers' files could attack."""


def open_picture(path: str | Path, *, at_least: int) -> Image.Image:
    """An image file as RGB, turned the way its camera was held.

    Args:
        path: of the file.
        at_least: pixels a side that are needed. A big picture is decoded at a fraction of its size (JPEG
            saves most of the work) that is not smaller than this.

    Raises:
        OSError, ValueError, …: whatever Pillow raises for a damaged file.
    """
    with Image.open(path, formats=FORMATS) as image:
        image.draft("RGB", (at_least, at_least))
        return to_rgb(shrink(ImageOps.exif_transpose(image), at_least=at_least))


def shrink(image: Image.Image, *, at_least: int) -> Image.Image:
    """The image, made smaller by a whole factor as long as both sides keep twice `at_least` pixels."""
    factor = min(image.size) // (2 * at_least)
    if factor < 2 or image.mode in ("1", "P"):
        return image
    return image.reduce(factor)


def to_rgb(image: Image.Image) -> Image.Image:
    """Any Pillow image as RGB; what is transparent shows white.

    Example:
        >>> to_rgb(Image.new("RGBA", (1, 1), (255, 0, 0, 0))).getpixel((0, 0))
        (255, 255, 255)
    """
    if image.mode == "RGB" and "transparency" not in image.info:
        return image
    if image.mode.startswith("I"):  # 16 bits a pixel: the upper eight
        deep = np.asarray(image).astype(np.int64)
        return Image.fromarray((deep.clip(0, 65535) >> 8).astype(np.uint8)).convert("RGB")
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        layer = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer).convert("RGB")
    return image.convert("RGB")
