"""Conversion of users' images (files, Pillow images, arrays, vectors) to a learner's input.

Pixels become input in `autocl.data.preprocess`, as everywhere; here is what an estimator adds: telling
pictures, arrays and vectors apart. Every image is standardised by its own mean and deviation. Statistics of a
data set are unknown while its images still arrive, and statistics of a batch would make the answer depend on
what else is in the batch.

Shape legend: n = images, C = channels, H, W = pixels.
"""

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor

from autocl.data.preprocess import MIN_STD, resize, resize_floats, standardise_each, unit_range
from autocl.errors import FileError, InputError
from autocl.learner.config import LearnerConfig
from autocl.pictures import decode

Array = npt.NDArray[Any]
ImageShape = tuple[int, ...] | Literal["pad"] | None
"""Shape of the image in a vector: (H, W), (H, W, C) or "pad"; None: vectors are no images."""

FILES = str | Path | Image.Image
"""Types of pictures that have to be decoded: files by their paths, and Pillow images."""
Form = dict[str, Any]
"""Kind of input seen so far: {"vectors": F} or {"images": shape}; empty after lists of pictures."""


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
        read_vectors: makes what is neither pictures nor arrays of images [n, F].
    """
    if is_pictures(X):
        return pictures_to_input(X, config), form
    if isinstance(X, Tensor):
        X = array_of(X)
    if isinstance(X, np.ndarray) and X.ndim > 1 and X.shape == form.get("images"):
        raise InputError(
            f"an array of shape {list(X.shape)} is one image here, not several: pass X[None], of shape "
            f"{[1, *X.shape]}"
        )
    if not (isinstance(X, np.ndarray) and X.ndim in (3, 4)):
        vectors = read_vectors(X)
        F = vectors.shape[1]
        now = {**form, "vectors": F}
        if config.takes_vectors and config.channels == F:
            return torch.from_numpy(np.array(vectors, np.float32))[:, :, None, None], now
        if config.takes_vectors and image_shape is None:
            raise InputError(f"vectors of {F} values, but this learner was made for {config.channels}")
        return arrays_to_input(vectors_to_images(vectors, image_shape), config), now
    if form.get("images", X.shape[1:]) != X.shape[1:]:
        raise InputError(
            f"images of {_by(X.shape[1:])} came after images of {_by(form['images'])}: bring all to one "
            "size (only lists of pictures may differ in size)"
        )
    return arrays_to_input(X, config), {**form, "images": X.shape[1:]}


def array_of(t: Tensor) -> Array:
    """A tensor as an array; bfloat16, which numpy does not know, as float32."""
    return (t.float() if t.dtype == torch.bfloat16 else t).detach().cpu().numpy()


def pictures_to_input(X: Iterable[Any], config: LearnerConfig) -> Tensor:
    """Input [n, C, H, W] for a learner, from paths, Pillow images or arrays [H, W] or [H, W, C]."""
    at_least = max(config.height, config.width)
    return torch.cat([arrays_to_input(_pixels(x, i, at_least)[None], config) for i, x in enumerate(X)])


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
    square = next(
        ((s, s, c)[: 2 if c == 1 else 3] for c in (1, 3) if (s := math.isqrt(F // c)) ** 2 * c == F), None
    )
    named = f"image_shape={square}" if square else "image_shape=(height, width)"
    raise InputError(
        f"X is {list(X.shape)}: vectors of {F} values, but this learner was made for images. If every row is "
        f"a flattened image, say so with {named}; if X is a single image, pass X[None]; for feature vectors "
        'use ContinualClassifier("vectors")'
    )


def arrays_to_input(X: Array, config: LearnerConfig) -> Tensor:
    """Input [n, C, H, W] for a learner, from arrays [n, H, W], [n, H, W, C] or [n, C, H, W].

    Bytes go the way of image sets, bit for bit. Other numbers are resized as floats by the same filter.

    Example:
        >>> x = arrays_to_input(np.arange(64, dtype=np.uint8).reshape(1, 8, 8), LearnerConfig())
        >>> x.shape, bool(x.mean().abs() < 1e-5), bool((x.std() - 1).abs() < 1e-3)
        (torch.Size([1, 3, 32, 32]), True, True)
    """
    X = _as_bytes(_channels_last(X))
    size = (config.height, config.width)
    if X.dtype == np.uint8:
        channels = 1 if X.ndim == 3 else config.channels
        x = standardise_each(unit_range(resize(X, size, channels)))
    else:
        values = torch.from_numpy(_finite(X[:, None] if X.ndim == 3 else X.transpose(0, 3, 1, 2)))
        values = resize_floats(values, size, config.channels)
        x = standardise_each(values, floor=_floor(X, values))
    return x.expand(-1, config.channels, -1, -1).contiguous()


def _by(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape))


def _is_picture(x: object) -> bool:
    return isinstance(x, FILES) or (isinstance(x, np.ndarray) and x.ndim in (2, 3))


def _pixels(x: object, position: int, at_least: int) -> Array:
    """One image as [H, W] or [H, W, C]."""
    if isinstance(x, np.ndarray):
        return x
    if not isinstance(x, FILES):
        raise InputError(
            f"image {position} is a {type(x).__name__}: a list may hold file paths, Pillow images, or arrays "
            "[height, width] or [height, width, channels]"
        )
    try:
        return decode(x, at_least=at_least)
    except FileError as error:
        raise FileError(f"image {position}: {error}") from error


def _channels_last(X: Array) -> Array:
    """[n, H, W] or [n, H, W, 3]."""
    if X.ndim == 4 and X.shape[3] not in (1, 3):
        X = X.transpose(0, 2, 3, 1)
    if X.ndim not in (3, 4) or (X.ndim == 4 and X.shape[3] not in (1, 3)) or 0 in X.shape:
        raise InputError(
            f"images must be [n, height, width], or [n, height, width, channels] with 1 or 3 channels, and "
            f"not empty; got shape {list(X.shape)}"
        )
    return X[..., 0] if X.ndim == 4 and X.shape[3] == 1 else X


def _as_bytes(X: Array) -> Array:
    """Truth values as black and white, and bytes that went through a careless conversion as bytes."""
    if X.dtype.kind not in "biuf":
        raise InputError(f"images must be numbers, got {X.dtype}")
    if X.dtype.kind == "b":
        return X.astype(np.uint8) * np.uint8(255)
    if X.dtype.kind in "iu" and X.dtype.itemsize > 2 and X.min() >= 0 and X.max() <= 255:
        return X.astype(np.uint8)
    return X


def _floor(X: Array, values: Tensor) -> float | Tensor:
    """Smallest deviation that is divided by: a part of the type's range, for floats of the image's own."""
    if X.dtype.kind != "f":
        return MIN_STD * (np.iinfo(X.dtype).max if X.dtype.itemsize <= 2 else 255)
    # Floats have no range of their own. What their type, or a sum of doubles, cannot tell apart is noise.
    largest = values.flatten(1).abs().amax(1, keepdim=True)
    return max(float(np.finfo(X.dtype).eps), 1e-9) * largest.clamp(min=1e-290)


def _finite(X: Array) -> npt.NDArray[np.float64]:
    x = np.array(X, np.float64, order="C")
    if not np.isfinite(x).all():
        raise InputError("images contain NaN or infinity: clean them first")
    return x
