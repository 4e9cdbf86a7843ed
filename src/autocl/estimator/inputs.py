"""What people pass as X, made fit for `autocl.estimator.preprocess`, and a helpful line about the rest.

Shape legend: n = images, F = features.
"""

import math
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from autocl.errors import InputError
from autocl.estimator.preprocess import ImageShape
from autocl.learner.config import LearnerConfig


class InputTypeError(InputError, TypeError):
    """An argument of the wrong type, where scikit-learn's conventions want a TypeError."""


def listed(X: Any) -> Any:
    """X, with a column of a table made a list.

    Raises:
        InputError: X is one image instead of a list, or encoded images, or an iterator.
    """
    if isinstance(X, str | bytes | os.PathLike | Image.Image):
        raise InputError(f"X is one {type(X).__name__}: pass a list of images, here [x]")
    if isinstance(X, Iterator):
        raise InputError(f"X is a {type(X).__name__}, which can be read only once: pass list(X)")
    if hasattr(X, "to_list"):  # pandas' and polars' Series
        X = X.to_list()
    if isinstance(X, list | tuple) and X and isinstance(X[0], bytes | bytearray | memoryview):
        raise InputError("X holds bytes: decode them first, PIL.Image.open(io.BytesIO(data))")
    return X


def check_image_shape(shape: Any) -> ImageShape:
    """The option of that name, if it is one."""
    if shape is None or (isinstance(shape, str) and shape == "pad"):
        return shape  # type: ignore[return-value]
    sides = tuple(shape) if isinstance(shape, list | tuple) else ()
    if len(sides) in (2, 3) and all(isinstance(s, int | np.integer) and s > 0 for s in sides):
        return tuple(int(s) for s in sides)
    raise InputError(
        f"image_shape={shape!r} is not possible: give (height, width) or (height, width, channels)"
    )


def takes_vectors(config: LearnerConfig, length: int | None = None) -> bool:
    """Whether a learner was made for feature vectors (of this length) instead of images."""
    return config.encoder.kind == "identity" and length in (None, config.channels)


def check_vectors(X: npt.NDArray[Any], config: LearnerConfig, image_shape: ImageShape) -> npt.NDArray[Any]:
    """Vectors [n, F], unless the learner wants images and nobody said that they are some."""
    F = X.shape[1]
    if image_shape is not None or takes_vectors(config, F):
        return X
    if takes_vectors(config):
        raise InputError(f"vectors of {F} values, but this learner was made for {config.channels}")
    shape = next(
        ((s, s, c)[: 2 if c == 1 else 3] for c in (1, 3) if (s := math.isqrt(F // c)) ** 2 * c == F), None
    )
    named = f"image_shape={shape}" if shape else "image_shape=(height, width)"
    raise InputError(
        f"X is {list(X.shape)}: vectors of {F} values, but this learner was made for images. If every row is "
        f"a flattened image, say so with {named}; if X is a single image, pass X[None]; for feature vectors "
        'use ContinualClassifier("vectors")'
    )


def check_weights(sample_weight: Any, n: int) -> npt.NDArray[np.float64] | None:
    """Weights [n] of samples, if any are given."""
    if sample_weight is None:
        return None
    try:
        weights = np.asarray(sample_weight, np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"sample_weight must be numbers: {error}") from error
    if weights.shape != (n,) or not np.isfinite(weights).all() or weights.min() < 0 or not weights.sum():
        raise InputError(f"sample_weight must be {n} numbers of at least 0, not all 0")
    return weights
