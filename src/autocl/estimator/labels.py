"""Labels as people write them: any hashable, in lists or arrays of any type."""

from collections.abc import Hashable, Iterable, Sequence
from numbers import Number
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import column_or_1d

from autocl.errors import InputError


def read_labels(y: Any, n: int) -> list[Hashable]:
    """The n labels in y, as plain Python values. Messages use the words scikit-learn's checks look for."""
    if y is None:
        raise InputError("requires y to be passed, but the target y is None: every demo needs its label")
    if isinstance(y, list | tuple) and not all(isinstance(label, Number | list | np.ndarray) for label in y):
        # Not through an array, which would turn ["a", 1] into ["a", "1"] and tuples into rows.
        found = [label.item() if isinstance(label, np.generic) else label for label in y]
    else:
        found = _from_array(y)
    if len(found) != n:
        raise InputError(
            f"Found input variables with inconsistent numbers of samples: {n} images and {len(found)} labels"
        )
    for i, label in enumerate(found):
        try:
            hash(label)
        except TypeError as error:
            raise InputError(
                f"label {i} is a {type(label).__name__}, which cannot be hashed: use strings, numbers or "
                "tuples"
            ) from error
        if label != label:
            raise InputError(f"label {i} is NaN, which equals nothing, not even itself: give it a name")
    return found


def ordered(labels: Iterable[Hashable]) -> tuple[npt.NDArray[Any], list[int]]:
    """Labels as scikit-learn's `classes_`: sorted if they can be, else as they came; and where each was."""
    kept = list(labels)
    try:
        order = sorted(range(len(kept)), key=kept.__getitem__)  # type: ignore[arg-type]
    except TypeError:
        order = list(range(len(kept)))
    return as_array([kept[i] for i in order]), order


def some(labels: Sequence[Hashable]) -> str:
    """The first few of them, for a message."""
    return ", ".join(map(repr, labels[:5])) + (" …" if len(labels) > 5 else "")


def as_array(labels: list[Hashable]) -> npt.NDArray[Any]:
    """A vector of labels; of a plain type where they have one in common."""
    for kind in (bool, int, float, str):
        if all(type(label) is kind for label in labels):
            return np.array(labels)
    out = np.empty(len(labels), object)
    out[:] = labels
    return out


def _from_array(y: Any) -> list[Any]:
    # scikit-learn's reading takes longer than learning should: plain vectors do without.
    plain = isinstance(y, np.ndarray) and y.ndim == 1
    array = y if plain else column_or_1d(y, warn=True)
    if array.dtype.kind == "f":
        if not np.isfinite(array).all():
            raise InputError("Input y contains NaN or infinity: every demo needs a label")
        if (array != np.rint(array)).any():
            raise InputError(
                "Unknown label type: continuous. Labels name classes; numbers with fractions do not"
            )
    return list(array.tolist())
