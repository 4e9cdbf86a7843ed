"""Checks of what users pass as X, with an error that names the remedy.

Lists and vectors are checked for `autocl.estimator.preprocess`; pictures for a learner of vectors pass a
frozen backbone; `Encoded` images have passed an encoder before.

Shape legend: n = images, F = features.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor

from autocl.encoders.backbones import Backbone
from autocl.encoders.backbones.base import BATCH
from autocl.errors import InputError
from autocl.estimator.preprocess import FILES, Form, ImageShape, array_of, is_pictures
from autocl.learner import Learner
from autocl.pictures import upright

DEFAULT, VECTORS = "everyday", "vectors"
"""The learner of a classifier that was given none, and the one that takes over if vectors come."""


class InputTypeError(InputError, TypeError):
    """An argument of the wrong type, where scikit-learn's conventions want a TypeError."""


def listed(X: Any) -> Any:
    """X, with a column of a table made a list, and tensors in a list made arrays.

    Raises:
        InputError: X is one image instead of a list, or encoded images, or an iterator.
    """
    if isinstance(X, str | bytes | os.PathLike | Image.Image):
        raise InputError(f"X is one {type(X).__name__}: pass a list of images, here [x]")
    if isinstance(X, Iterator):
        raise InputError(f"X is a {type(X).__name__}, which can be read only once: pass list(X)")
    if hasattr(X, "to_list"):  # pandas' and polars' Series
        X = X.to_list()
    if isinstance(X, list | tuple) and X and isinstance(X[0], Tensor):
        X = [array_of(x) if isinstance(x, Tensor) else x for x in X]
    if isinstance(X, list | tuple) and X and isinstance(X[0], bytes | bytearray | memoryview):
        raise InputError("X holds bytes: decode them first, PIL.Image.open(io.BytesIO(data))")
    return X


def length_of(X: Any) -> int | None:
    """Length of the rows, if X looks like a table; None: it does not, or is empty."""
    shape = np.shape(X) if hasattr(X, "shape") else np.shape(np.asarray(X, dtype=object))
    return shape[1] if len(shape) == 2 and all(shape) else None


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


PHOTOS = ("photos", "lite2-levels")
"""Learner and backbone that the name "photos" stands for. lite2 is the most accurate of the embedded ones
(`benchmarks/backbones.py`)."""
SIDE = 256
"""Pixels a side to which big pictures may be reduced while they are decoded."""


def to_features(X: Any, backbone: Backbone, form: Form) -> tuple[Tensor, Form]:
    """Features [n, F, 1, 1] of pictures X, as a learner of vectors takes them, and their form.

    Args:
        X: files, Pillow images, or uint8 arrays [n, H, W] or [n, H, W, 3], or a list of such.
        backbone: makes the features.
        form: of what came before; features of other weights are refused.
    """
    if form.get("weights", backbone.fingerprint) != backbone.fingerprint:
        raise InputError(
            f"this was learned through backbone {form['backbone']!r} with other weights "
            f"({form['weights'][:12]}) than are installed here ({backbone.fingerprint[:12]})"
        )
    if not is_pictures(X) and not (isinstance(X, np.ndarray) and X.ndim in (3, 4)):
        raise InputError("a classifier with a backbone takes files, Pillow images or uint8 arrays of images")
    features = np.empty((len(X), backbone.n_features, 1, 1), np.float32)
    for start in range(0, len(X), BATCH):  # so that only a few pictures are in memory at a time
        some = X[start : start + BATCH]
        pictures = [upright(x, channels=3, at_least=SIDE) if isinstance(x, FILES) else x for x in some]
        features[start : start + BATCH, :, 0, 0] = backbone(pictures)
    kept = {"vectors": backbone.n_features, "backbone": backbone.name, "weights": backbone.fingerprint}
    return torch.from_numpy(features), {**form, **kept}


@dataclass(frozen=True, kw_only=True, eq=False)
class Encoded:
    """Features of images, with the learner that made them; every method takes it in the place of images."""

    features: Tensor
    """[n, F]."""
    learner: Learner
    named: tuple[object, object]
    """`learner` and `backbone` of the classifier that made them."""
    form: Form

    def __len__(self) -> int:
        """Number of images."""
        return len(self.features)

    def __getitem__(self, rows: slice) -> "Encoded":
        """Some of the images."""
        return replace(self, features=self.features[rows])

    def check_fits(self, learner: Learner, form: Form) -> None:
        """Refuse a classifier whose learner or backbone has other weights."""
        same = self.learner is learner or self.learner.fingerprint() == learner.fingerprint()
        if not same or form.get("weights", self.form.get("weights")) != self.form.get("weights"):
            raise InputError(
                "these images were encoded by a learner or backbone with other weights: encode them with a "
                "classifier like this one"
            )
