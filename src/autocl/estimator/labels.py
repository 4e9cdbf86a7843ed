"""Labels as people write them: in lists, arrays or series of any type; and as JSON.

None, booleans, numbers, text, bytes, dates, times and tuples of them can be saved. Any other hashable value
can be learned, too, with a warning that it cannot be saved. Labels that are equal in Python are one class:
True, 1 and 1.0 are.
"""

import base64
import math
import warnings
from collections.abc import Hashable, Iterable, Sequence
from datetime import date, datetime
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import column_or_1d

from autocl.errors import InputError, short

MAX_LABEL = 10_000
"""Characters of a label; longer ones are something else by mistake, and do not fit into files."""
MAX_BITS = 14_000
"""Most digits of an integer: Python does not read longer ones from text."""
EXACT_FLOATS = 2**53
"""Up to here every integer is a float64 of its own."""


def read_labels(y: Any, n: int | None = None) -> list[Hashable]:
    """The labels in y, as plain Python values. Messages use the words scikit-learn's checks look for.

    Args:
        y: labels.
        n: how many there must be; None: any number.

    Example:
        >>> read_labels(np.array([2, 1])), read_labels(["a", np.int64(3), (np.int64(1), "x")])
        ([2, 1], ['a', 3, (1, 'x')])
    """
    if y is None:
        raise InputError("requires y to be passed, but the target y is None: every demo needs its label")
    if isinstance(y, str | bytes | int | float) or not (hasattr(y, "__len__") or hasattr(y, "__array__")):
        raise InputError(f"labels must be a list or an array, one for each image; got {short(y)} alone")
    found = [_plain_value(label) for label in (y if _is_plain_list(y) else _from_array(y))]
    if n is not None and len(found) != n:
        raise InputError(
            f"Found input variables with inconsistent numbers of samples: {n} images and {len(found)} labels"
        )
    for i, label in enumerate(found):
        _check(label, i)
    if all(isinstance(label, int | float) for label in found) and any(label != int(label) for label in found):
        raise InputError("Unknown label type: continuous. Labels name classes; numbers with fractions do not")
    return found


def check_savable(labels: Iterable[Hashable]) -> None:
    """Warn of labels that `save` will refuse, while there is time to choose others."""
    for label in labels:
        try:
            to_json(label)
        except InputError as error:
            warnings.warn(f"{error}. It is learned all the same", UserWarning, stacklevel=4)
            return


def sorted_classes(labels: Iterable[Hashable]) -> tuple[npt.NDArray[Any], list[int]]:
    """Labels as scikit-learn's `classes_`: sorted if they can be, else as they came; and where each was."""
    kept = list(labels)
    try:
        order = sorted(range(len(kept)), key=kept.__getitem__)  # type: ignore[arg-type]
    except TypeError:
        order = list(range(len(kept)))
    return as_array([kept[i] for i in order]), order


def preview(labels: Sequence[Hashable]) -> str:
    """The first few of them, for a message."""
    return ", ".join(map(short, labels[:5])) + (" …" if len(labels) > 5 else "")


def as_array(labels: list[Hashable]) -> npt.NDArray[Any]:
    """A vector of labels; of a plain type where they have one in common that keeps them apart.

    Example:
        >>> as_array([1, 2]).dtype, as_array([2**63, -1]).dtype, as_array(["a", "a\\0"]).dtype
        (dtype('int64'), dtype('O'), dtype('O'))
    """
    kinds = {type(label) for label in labels}
    dtype: Any = object
    if kinds == {bool}:
        dtype = bool
    elif kinds == {int}:
        low, high = int(min(labels)), int(max(labels))  # type: ignore[type-var, call-overload]
        fits = [k for k in (np.int64, np.uint64) if np.iinfo(k).min <= low and high <= np.iinfo(k).max]
        dtype = fits[0] if fits else object
    elif kinds and kinds <= {int, float}:
        dtype = float if all(abs(label) <= EXACT_FLOATS for label in labels) else object  # type: ignore[arg-type]
    elif kinds == {str} and not any(str(label).endswith("\0") for label in labels):
        dtype = str  # numpy drops zero characters at the end
    if dtype is not object:
        return np.array(labels, dtype)
    out = np.empty(len(labels), object)
    out[:] = labels
    return out


def to_json(label: Hashable) -> Any:
    """A label as JSON; what JSON lacks is an object that names its type."""
    if label is None or isinstance(label, str | bool | int):
        return label
    if isinstance(label, float) and math.isfinite(label):
        return label
    if isinstance(label, tuple):
        return {"tuple": [to_json(part) for part in label]}
    if isinstance(label, bytes):
        return {"bytes": base64.b64encode(label).decode("ascii")}
    if type(label) in (date, datetime):
        return {type(label).__name__: label.isoformat()}  # type: ignore[attr-defined]
    raise InputError(
        f"label {short(label)} of type {type(label).__name__} cannot be saved: use text, numbers, booleans, "
        "None, bytes, dates, or tuples of them"
    )


def from_json(value: Any) -> Hashable:
    """The inverse of `to_json`; ValueError or TypeError for anything else.

    Example:
        >>> from_json(to_json((b"\\0", date(2024, 2, 29), 1.5)))
        (b'\\x00', datetime.date(2024, 2, 29), 1.5)
    """
    if value is None or isinstance(value, str | bool | int | float):
        plain: Hashable = value
        return plain
    if not isinstance(value, dict) or len(value) != 1:
        raise TypeError(f"{short(value)} is not a label")
    ((kind, inner),) = value.items()
    match kind:
        case "tuple" if isinstance(inner, list):
            return tuple(from_json(part) for part in inner)
        case "bytes" if isinstance(inner, str):
            return base64.b64decode(inner, validate=True)
        case "date" if isinstance(inner, str):
            return date.fromisoformat(inner)
        case "datetime" if isinstance(inner, str):
            return datetime.fromisoformat(inner)
    raise TypeError(f"{short(value)} is not a label")


def _is_plain_list(y: Any) -> bool:
    """A list of labels, not of rows. Through an array, ["a", 1] would become ["a", "1"], tuples rows, and
    integers beyond 64 bits floats that are equal."""
    return isinstance(y, list | tuple) and not (y and all(isinstance(row, list | np.ndarray) for row in y))


def _from_array(y: Any) -> list[Any]:
    # scikit-learn's reading takes longer than learning should: plain vectors do without.
    try:
        array = y if isinstance(y, np.ndarray) and y.ndim == 1 else column_or_1d(y, warn=True)
    except (ValueError, TypeError) as error:
        raise InputError(str(error)) from error
    if array.dtype.kind in "mM":
        raise InputError("labels are numpy's dates or times, which lose their type: use y.astype(str)")
    return list(array.tolist())


def _plain_value(label: Any) -> Any:
    """Numpy's scalars as Python's, also within tuples."""
    if type(label) is tuple:
        return tuple(_plain_value(part) for part in label)
    if isinstance(label, np.generic) and not isinstance(label, np.datetime64 | np.timedelta64):
        return label.item()
    return label


def _check(label: Any, position: int) -> None:
    try:
        hash(label)
        known = bool(label == label)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"label {position} is a {type(label).__name__}, which cannot be hashed or compared: use text, "
            "numbers or tuples"
        ) from error
    if not known or (isinstance(label, float) and math.isinf(label)):
        raise InputError(f"Input y contains NaN or infinity: label {position} is {label}; give it a name")
    if isinstance(label, tuple):
        for part in label:
            _check(part, position)
    if isinstance(label, str | bytes | tuple) and len(label) > MAX_LABEL:
        raise InputError(f"label {position} has a length of {len(label):,}; {MAX_LABEL:,} is the most")
    if isinstance(label, int) and label.bit_length() > MAX_BITS:
        raise InputError(f"label {position} is a number of more than 4,000 digits")
