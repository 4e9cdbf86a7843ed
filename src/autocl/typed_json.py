"""JSON from anywhere, as plain values of a stated form, or a FileError that says what is wrong and where.

Files may be damaged, of another version, or made by someone who means harm. So nothing is taken on trust: the
length of the text, how deep it nests, that numbers are finite, and that every value has the type its reader
counts on. The form is an ordinary annotation: a dataclass, a `TypedDict`, `dict[str, float]`,
`list[int] | None`, …
"""

import json
import math
import types
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeVar, Union, get_args, get_origin, get_type_hints, is_typeddict

from autocl.errors import FileError, InputError, short

T = TypeVar("T")

MAX_CHARS = 16 * 2**20
"""Longest text: empty lists, which cost the most memory for each character, make 0.4 GB of it."""
MAX_LINES = 8 * MAX_CHARS
"""Longest file of many values: a log of a quarter of a million steps."""
MAX_DEPTH = 40
"""Deepest nesting: what autocl writes has less than ten levels."""
MAX_INT = 2**63
"""Numbers of things lie below; where any integer will do (labels), the form says Any."""


def read_json(path: str | Path, form: type[T]) -> T:
    """Read a file of one JSON value.

    Args:
        path: the file.
        form: what it must be; see `parse_json`.
    """
    return parse_json(read_text(path), form, where=str(path))


def read_json_lines(path: str | Path, form: type[T]) -> list[T]:
    """Read a file of one JSON value a line.

    A last line that has no end and cannot be read is left out: its writer was killed.
    """
    *whole, torn = read_text(path, limit=MAX_LINES).split("\n")
    values = [
        parse_json(line, form, where=f"{path}, line {i}") for i, line in enumerate(whole, 1) if line.strip()
    ]
    if torn.strip():
        with suppress(FileError):
            values.append(parse_json(torn, form, where=str(path)))
    return values


def read_text(path: str | Path, *, limit: int = MAX_CHARS) -> str:
    """The text of a file, if it is UTF-8 and not longer than the limit in bytes."""
    path = Path(path)
    if not path.is_file():
        raise FileError(f"{path}: no such file")
    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)
        if len(data) > limit:
            raise FileError(f"{path}: longer than {limit:,} bytes, which nothing that autocl writes is")
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FileError(f"{path}: damaged: not UTF-8 text ({error.reason} at byte {error.start})") from error
    except OSError as error:
        raise FileError(f"{path}: cannot be read: {error.strerror}") from error


def parse_json(text: str, form: type[T], *, where: str) -> T:
    """Read one JSON value.

    Args:
        text: JSON.
        form: what it must be, as an annotation: None, bool, int, float (integers count), str, Any, Literal,
            `X | Y`, list, dict with text as keys, tuple (from a list of that length), or a dataclass or
            TypedDict; there may be further keys, which a dataclass leaves out.
        where: file, or part of one, for messages.

    Raises:
        FileError: the text is something else.

    Example:
        >>> parse_json('{"a": [1, 2.5]}', dict[str, list[float]], where="x.json")
        {'a': [1, 2.5]}
        >>> parse_json('{"a": [1, "2"]}', dict[str, list[float]], where="x.json")
        Traceback (most recent call last):
            ...
        autocl.errors.FileError: x.json: a[1] must be a number, found '2'
    """
    if len(text) > MAX_CHARS:
        raise FileError(f"{where}: {len(text):,} characters; autocl reads at most {MAX_CHARS:,}")
    try:
        value = json.loads(text, parse_constant=_refuse, parse_float=_finite)
        _check_depth(value, MAX_DEPTH)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else error
        raise FileError(f"{where}: damaged, or not written by autocl: {reason}") from error
    checked: T = _checked(value, form, where, "")
    return checked


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a number")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"{digits[:20]} is too large a number")
    return value


def _check_depth(value: Any, left: int) -> None:
    if isinstance(value, dict | list):
        if not left:
            raise RecursionError
        for part in value.values() if isinstance(value, dict) else value:
            _check_depth(part, left - 1)


def _checked(value: Any, form: Any, where: str, place: str) -> Any:
    """The value, with lists made tuples and objects made dataclasses where the form has them."""
    if form is Any:
        return value
    if is_typeddict(form) or is_dataclass(form):
        return _checked_fields(value, form, where, place)
    kind, parts = get_origin(form) or form, get_args(form)
    if kind in (Union, types.UnionType):
        return _checked_union(value, parts, where, place)
    if kind is Literal:
        _demand(
            any(value == p and type(value) is type(p) for p in parts), f"one of {parts}", value, where, place
        )
        return value
    if kind in (dict, Mapping):
        _demand(isinstance(value, dict), "an object", value, where, place)
        return {k: _checked(v, parts[1], where, _dot(place, k)) for k, v in value.items()}
    if kind is list:
        _demand(isinstance(value, list), "a list", value, where, place)
        return [_checked(v, parts[0], where, f"{place}[{i}]") for i, v in enumerate(value)]
    if kind is tuple:
        each = len(parts) == 2 and parts[1] is ...
        _demand(isinstance(value, list), "a list", value, where, place)
        _demand(each or len(value) == len(parts), f"a list of {len(parts)} values", value, where, place)
        forms = [parts[0]] * len(value) if each else parts
        return tuple(
            _checked(v, f, where, f"{place}[{i}]") for i, (v, f) in enumerate(zip(value, forms, strict=True))
        )
    _demand(_is_scalar(value, kind), _WORDS[kind], value, where, place)
    return value


def _checked_fields(value: Any, form: Any, where: str, place: str) -> Any:
    """A dictionary of a TypedDict's form, or a dataclass."""
    wanted = get_type_hints(form)
    _demand(isinstance(value, dict), "an object", value, where, place)
    if is_dataclass(form):
        optional = {f.name for f in fields(form) if (f.default, f.default_factory) != (MISSING, MISSING)}
        required = {f.name for f in fields(form)} - optional
    else:
        required = form.__required_keys__
    if missing := required - value.keys():
        raise FileError(
            f"{where}: {place or 'it'} lacks {', '.join(sorted(missing))}: written by another version?"
        )
    if not is_dataclass(form):
        return {k: _checked(v, wanted.get(k, Any), where, _dot(place, k)) for k, v in value.items()}
    known = {k: _checked(v, wanted[k], where, _dot(place, k)) for k, v in value.items() if k in wanted}
    try:
        return form(**known)  # type: ignore[operator]  # a class, not an object of one
    except InputError as error:
        raise FileError(f"{where}: {place or 'it'}: {error}") from error


def _checked_union(value: Any, parts: tuple[Any, ...], where: str, place: str) -> Any:
    refused = []
    for part in parts:
        try:
            return _checked(value, part, where, place)
        except FileError as error:
            refused.append(error)
    # The message of the form that went deepest says most.
    raise max(refused, key=lambda error: len(str(error)))


_WORDS = {type(None): "null", bool: "true or false", int: "an integer", float: "a number", str: "text"}


def _is_scalar(value: Any, kind: type) -> bool:
    if kind is float:
        return isinstance(value, float) or (type(value) is int and abs(value) < MAX_INT)
    return type(value) is kind and not (isinstance(value, int) and abs(value) >= MAX_INT)


def _demand(holds: bool, what: str, value: Any, where: str, place: str) -> None:
    if not holds:
        raise FileError(f"{where}: {place or 'it'} must be {what}, found {_short(value)}")


def _short(value: Any) -> str:
    if isinstance(value, dict | list):
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)}"
    return short(value, 40)


def _dot(place: str, key: str) -> str:
    key = key if len(key) <= 40 else key[:40] + "…"
    return f"{place}.{key}" if place else key
