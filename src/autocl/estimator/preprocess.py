"""Anything a person calls images, to what a learner was trained on.

Every image is standardised by its own mean and deviation. Statistics of a data set are unknown while its
images still arrive, and statistics of a batch would make the answer depend on what else is in the batch.

Shape legend: n = images, C = channels, H, W = pixels.
"""

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image, UnidentifiedImageError
from torch import Tensor
from torch.nn.functional import interpolate

from autocl.errors import FileError, InputError
from autocl.learner.config import LearnerConfig

Array = npt.NDArray[Any]
ImageShape = tuple[int, ...] | Literal["pad"] | None
"""How a vector is an image: (H, W), (H, W, C), "pad", or None to infer a square from its length."""

Form = dict[str, Any]
"""What images came as: {"vectors": F} or {"images": shape}; empty after lists of pictures."""

LUMA = (0.299, 0.587, 0.114)
"""What red, green and blue count for in gray (ITU-R 601, as Pillow has it)."""
MIN_STD = 1e-3
"""A quarter of one step of 8 bits: an image with less contrast is blank, and its noise is not blown up."""


def is_pictures(X: object) -> bool:
    """Whether X is a list of separate images (files, Pillow images, arrays) that may differ in size."""
    if isinstance(X, np.ndarray):
        return X.ndim == 1 and X.dtype.kind in "UO" and len(X) > 0 and _is_picture(X[0])
    return isinstance(X, list | tuple) and len(X) > 0 and _is_picture(X[0])


def to_input(
    X: Any,
    config: LearnerConfig,
    form: Form,
    *,
    image_shape: ImageShape,
    read_vectors: Callable[[Any], Array],
) -> tuple[Tensor, Form]:
    """Input [n, C, H, W] for a learner, from any kind of images, and the form they have.

    Args:
        X: images.
        config: of the learner.
        form: of what came before; arrays of another size are refused.
        image_shape: how vectors are images.
        read_vectors: checks what is neither pictures nor arrays of images, and makes it [n, F].
    """
    if is_pictures(X):
        return pictures_to_input(X, config), form
    if isinstance(X, Tensor):
        X = X.detach().cpu().numpy()
    if not (isinstance(X, np.ndarray) and X.ndim in (3, 4)):
        vectors = read_vectors(X)
        now = {**form, "vectors": vectors.shape[1]}
        if config.encoder.kind == "identity" and config.channels == vectors.shape[1]:
            return torch.from_numpy(np.array(vectors, np.float32))[:, :, None, None], now
        return arrays_to_input(vectors_to_images(vectors, image_shape), config), now
    if form.get("images", X.shape[1:]) != X.shape[1:]:
        raise InputError(
            f"images of {_by(X.shape[1:])} came after images of {_by(form['images'])}: bring all to one "
            "size (only lists of pictures may differ in size)"
        )
    return arrays_to_input(X, config), {**form, "images": X.shape[1:]}


def pictures_to_input(X: Iterable[Any], config: LearnerConfig) -> Tensor:
    """Input [n, C, H, W] for a learner, from paths, Pillow images or arrays [H, W] or [H, W, C]."""
    return torch.cat([arrays_to_input(_pixels(x, i)[None], config) for i, x in enumerate(X)])


def vectors_to_images(X: Array, image_shape: ImageShape) -> Array:
    """[n, F] -> [n, H, W] or [n, H, W, C]."""
    n, F = X.shape
    if image_shape == "pad":
        side = math.isqrt(F - 1) + 1
        return np.pad(X, [(0, 0), (0, side * side - F)]).reshape(n, side, side)
    if image_shape is not None:
        if math.prod(image_shape) != F or len(image_shape) not in (2, 3):
            raise InputError(
                f"image_shape={image_shape} does not fit vectors of {F} values: give (height, width) or "
                "(height, width, channels) whose product is that number"
            )
        return X.reshape(n, *image_shape)
    for channels in (1, 3):
        side = math.isqrt(F // channels)
        if side * side * channels == F:
            return X.reshape(n, side, side) if channels == 1 else X.reshape(n, side, side, 3)
    raise InputError(
        f"vectors of {F} values are no square image, gray or colour: pass image_shape=(height, width) or "
        '(height, width, channels), or image_shape="pad" if they are not images at all'
    )


def arrays_to_input(X: Array, config: LearnerConfig) -> Tensor:
    """Input [n, C, H, W] for a learner, from arrays [n, H, W], [n, H, W, C] or [n, C, H, W].

    Resized (antialiased), gray made colour or colour gray, each image then standardised.

    Example:
        >>> x = arrays_to_input(np.arange(64, dtype=np.uint8).reshape(1, 8, 8), LearnerConfig())
        >>> x.shape, bool(x.mean().abs() < 1e-5), bool((x.std() - 1).abs() < 1e-3)
        (torch.Size([1, 3, 32, 32]), True, True)
    """
    x = torch.from_numpy(_scaled(_channels_first(X)))
    if x.shape[1] == 3 and config.channels == 1:
        x = (x * torch.tensor(LUMA).view(3, 1, 1)).sum(1, keepdim=True)
    size = (config.height, config.width)
    if x.shape[2:] != size:
        x = interpolate(x, size=size, mode="bilinear", antialias=True, align_corners=False)
    # In double precision: a sum's last bits must not depend on how many images are summed side by side.
    pixels = x.flatten(1).double()
    mean = pixels.mean(1, keepdim=True)
    std = (pixels - mean).square_().mean(1, keepdim=True).sqrt_().clamp_(min=MIN_STD)
    x = ((pixels - mean) / std).float().view_as(x)
    return x.expand(-1, config.channels, -1, -1).contiguous()


def _by(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape))


def _is_picture(x: object) -> bool:
    return isinstance(x, str | Path | Image.Image) or (isinstance(x, np.ndarray) and x.ndim in (2, 3))


def _pixels(x: object, position: int) -> Array:
    """One image as [H, W] or [H, W, C]."""
    if isinstance(x, np.ndarray):
        return x
    if isinstance(x, str | Path):
        try:
            with Image.open(x) as image:
                return _decoded(image)
        except FileNotFoundError as error:
            raise FileError(f"{x} (image {position}): no such file") from error
        except (OSError, UnidentifiedImageError) as error:
            raise FileError(f"{x} (image {position}): not an image, or a damaged one ({error})") from error
    if isinstance(x, Image.Image):
        return _decoded(x)
    raise InputError(
        f"image {position} is a {type(x).__name__}: a list may hold file paths, Pillow images, or arrays "
        "[height, width] or [height, width, channels]"
    )


def _decoded(image: Image.Image) -> Array:
    gray = image.mode in ("1", "L", "I;16", "I", "F")
    return np.asarray(image if gray else image.convert("RGB"))


def _channels_first(X: Array) -> Array:
    if X.ndim == 3:
        X = X[:, None]
    elif X.ndim == 4 and X.shape[3] in (1, 3):
        X = X.transpose(0, 3, 1, 2)
    if X.ndim != 4 or X.shape[1] not in (1, 3) or 0 in X.shape:
        raise InputError(
            f"images must be [n, height, width], or [n, height, width, channels] with 1 or 3 channels, and "
            f"not empty; got shape {list(X.shape)}"
        )
    return X


def _scaled(X: Array) -> npt.NDArray[np.float32]:
    """Integers become fractions of their type's largest value, so that bytes lie in [0, 1] as floats do."""
    if X.dtype.kind not in "biuf":
        raise InputError(f"images must be numbers, got {X.dtype}")
    x = np.array(X, np.float32, order="C")
    if X.dtype.kind in "iu":
        # Integers wider than 16 bits are bytes that went through a careless conversion.
        x /= np.iinfo(X.dtype).max if X.dtype.itemsize <= 2 else 255
    if not np.isfinite(x).all():
        raise InputError("images contain NaN or infinity: clean them first")
    return x
