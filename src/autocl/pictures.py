"""Picture files and Pillow images to upright bytes, and back: the only place that opens a stranger's file."""

import io
import warnings
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from autocl.errors import FileError, InputError

Pixels = npt.NDArray[np.uint8]
Source = bytes | str | Path | IO[bytes] | Image.Image
"""An image file, its bytes, or a Pillow image."""

FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF", "PPM")
"""File formats that are opened. Pillow knows more; each is a decoder that a stranger's file could attack."""
MAX_PIXELS = 1 << 27
"""A file that unpacks to more pixels than this is refused before it is unpacked."""
BIG = 1 << 21
"""Pictures of more pixels than this are reduced while they are decoded, where a smaller size is enough."""

_ORIENTATION = 0x0112
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT, 3: Image.Transpose.ROTATE_180, 4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE, 6: Image.Transpose.ROTATE_270, 7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}  # fmt: skip
"""Transposition that undoes each EXIF orientation."""
_NOTES = ("exif", "Raw profile type exif", "xmp", "XML:com.adobe.xmp")
"""Where Pillow keeps what a file says of its orientation."""


def decode(
    source: Source, *, channels: int | None = None, at_least: int = 0, max_pixels: int = MAX_PIXELS
) -> Pixels:
    """Pixels of one picture, uint8 [H, W] or [H, W, 3]: `upright` as an array.

    Example:
        >>> decode(Image.new("RGBA", (2, 1), (255, 0, 0, 0))).tolist()
        [[[255, 255, 255], [255, 255, 255]]]
    """
    return np.asarray(upright(source, channels=channels, at_least=at_least, max_pixels=max_pixels))


def upright(
    source: Source, *, channels: int | None = None, at_least: int = 0, max_pixels: int = MAX_PIXELS
) -> Image.Image:
    """One picture, upright, with 8 bits a channel; what is transparent shows white.

    Args:
        source: an image file, its bytes, or a Pillow image.
        channels: 1 for gray, 3 for colour; default: as the picture is.
        at_least: pixels a side that will be needed; pictures of more than `BIG` pixels are decoded at a
            fraction of their size that is at least four times this. 0: never.
        max_pixels: more are refused.

    Returns:
        An image of mode L or RGB; the source itself where nothing is to be done.

    Raises:
        FileError: when the file is missing, damaged, too large, or not an image.
    """
    name = source if isinstance(source, str | Path) else "the picture"
    try:
        if isinstance(source, Image.Image):
            return _loaded(source, channels, at_least, max_pixels)
        file = io.BytesIO(source) if isinstance(source, bytes) else source
        with warnings.catch_warnings():
            # The limit is max_pixels; Pillow's own, which only warns, is lower.
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            opened = Image.open(file, formats=FORMATS)
        with opened as image:
            return _loaded(image, channels, at_least, max_pixels)
    except InputError as error:
        raise FileError(f"{name}: {error}") from error
    except FileNotFoundError as error:
        raise FileError(f"{name}: no such file") from error
    except Exception as error:  # damaged files make Pillow raise almost anything
        raise FileError(f"{name}: not an image, or a damaged one ({error})") from error


def png(image: Image.Image) -> bytes:
    """A picture as a PNG file."""
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def _loaded(image: Image.Image, channels: int | None, at_least: int, max_pixels: int) -> Image.Image:
    width, height = image.size
    if width * height > max_pixels:
        raise InputError(
            f"{width}×{height} pixels are too many: at most {max_pixels:,} are read; make it smaller first"
        )
    factor = 1
    if at_least and width * height > BIG:
        image.draft(None, (4 * at_least, 4 * at_least))  # JPEG can skip most of the work
        factor = min(image.size) // (4 * at_least)
    if factor > 1 and image.mode in ("L", "LA", "RGB", "RGBA", "CMYK"):
        image = image.reduce(factor)
        factor = 1
    image = _eight_bits(_turned(image))
    if factor > 1:
        image = image.reduce(factor)
    if channels is not None:
        image = _in_mode(image, "L" if channels == 1 else "RGB")
    image.load()  # while the file is open
    return image


def _in_mode(image: Image.Image, mode: str) -> Image.Image:
    """The image in this mode; Pillow's `convert` would copy one that has it."""
    return image if image.mode == mode else image.convert(mode)


def _turned(image: Image.Image) -> Image.Image:
    """Turned as the camera was held, where the file says how."""
    try:
        orientation = image.getexif().get(_ORIENTATION)
    except Exception:  # damaged notes on a picture that may be sound
        return image
    if orientation not in _TURNS:
        return image
    turned = image.transpose(_TURNS[orientation])
    for key in _NOTES:  # it would be turned again
        turned.info.pop(key, None)
    return turned


def _eight_bits(image: Image.Image) -> Image.Image:
    """The picture in mode L or RGB."""
    if image.mode.startswith("I") or image.mode == "F":
        return Image.fromarray(_from_deep(np.asarray(image), sixteen=";16" in image.mode))
    if image.has_transparency_data:
        gray = image.mode in ("L", "LA", "La")
        layer = image.convert("RGBA")
        white = Image.new("RGBA", layer.size, "white")
        return Image.alpha_composite(white, layer).convert("L" if gray else "RGB")
    return _in_mode(image, "L" if image.mode in ("1", "L") else "RGB")


def _from_deep(values: npt.NDArray[Any], *, sixteen: bool) -> Pixels:
    """Bytes from 16 bits; from wider pixels by the smallest usual range that holds them, else their own."""
    x = values.astype(np.float64)
    low, high = float(x.min(initial=0)), float(x.max(initial=0))
    if not np.isfinite([low, high]).all():
        raise InputError("it contains NaN or infinity: clean it first")
    if sixteen:
        low, high = 0.0, 65535.0
    elif low >= 0 and high <= 65535:
        fraction = values.dtype.kind == "f" and high <= 1
        low, high = 0.0, 1.0 if fraction else 255.0 if high <= 255 else 65535.0
    return np.rint((x - low) / (high - low) * 255).astype(np.uint8)
