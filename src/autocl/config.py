"""One checker for every configuration dataclass: types, choices and ranges, and JSON in both directions.

A configuration is a frozen dataclass that calls `check(self)` in its `__post_init__`. What is checked stands
in the annotations: a Literal's alternatives, the type of a number, and ranges such as `Count`.
"""

import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    Protocol,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from autocl.errors import InputError
from autocl.names import guess


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`; the ends belong to it unless they are said to be open."""

    low: float
    high: float = float("inf")
    open_low: bool = False
    open_high: bool = False

    def __contains__(self, value: float) -> bool:
        above = value > self.low if self.open_low else value >= self.low
        return above and (value < self.high if self.open_high else value <= self.high)

    def __str__(self) -> str:
        if self.high == float("inf"):
            return f"greater than {self.low:g}" if self.open_low else f"at least {self.low:g}"
        return (
            f"in {'(' if self.open_low else '['}{self.low:g}, {self.high:g}{')' if self.open_high else ']'}"
        )


@dataclass(frozen=True)
class OneOf:
    """Names that are looked up in a registry when they are checked."""

    names: Callable[[], Sequence[str]]


Count = Annotated[int, Range(1)]
Natural = Annotated[int, Range(0)]
Amount = Annotated[float, Range(0, open_high=True)]
Positive = Annotated[float, Range(0, open_low=True)]
Share = Annotated[float, Range(0, 1)]
DropoutRate = Annotated[float, Range(0, 1, open_high=True)]


class Config(Protocol):
    """A dataclass; mypy's own name for one is private."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


C = TypeVar("C", bound=Config)


def check(config: Config) -> None:
    """Refuse a configuration with a value that its annotations do not allow.

    Example:
        >>> @dataclass(frozen=True)
        ... class Settings:
        ...     kind: Literal["ridge", "means"] = "ridge"
        ...     steps: Count = 1
        >>> check(Settings())
        >>> check(Settings(kind="rigde"))  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        autocl.errors.InputError: Settings.kind='rigde' is not known: did you mean 'ridge'? choose one of ...
        >>> check(Settings(steps=0))
        Traceback (most recent call last):
        autocl.errors.InputError: Settings.steps must be at least 1, got 0
    """
    for name, hint in _hints(type(config)).items():
        _check_value(f"{type(config).__name__}.{name}", getattr(config, name), hint)


def non_default(config: Config) -> dict[str, Any]:
    """The settings that are not at their default, as plain values; nested ones likewise."""
    changed: dict[str, Any] = {}
    for f in fields(config):
        value: Any = getattr(config, f.name)
        usual: Any = f.default_factory() if f.default_factory is not MISSING else f.default
        if value != usual:
            nested = is_dataclass(value) and not isinstance(value, type) and type(value) is type(usual)
            changed[f.name] = non_default(value) if nested else value
    return changed


def to_dict(config: Config, *, tagged: bool = False) -> dict[str, Any]:
    """Plain data for JSON.

    Args:
        config: a configuration.
        tagged: add its class as "type". Nested ones have it where their annotation leaves several open.
    """
    plain: dict[str, Any] = {"type": type(config).__name__} if tagged else {}
    for name, hint in _hints(type(config)).items():
        plain[name] = _plain(getattr(config, name), tagged=len(_dataclasses(hint)) > 1)
    return plain


def from_dict(kind: type[C], values: Any, *, where: str = "") -> C:
    """The inverse of `to_dict`; whatever does not belong there is named.

    A class may list settings of earlier versions in `retired`, with the only value that still has a meaning,
    or with `...` where any value may be ignored.

    Args:
        kind: the dataclass to make.
        values: what JSON gave.
        where: name of the setting, for messages.
    """
    where = where or kind.__name__
    if not isinstance(values, Mapping):
        raise InputError(f"{where} must be an object with settings, got {values!r}")
    hints, retired = _hints(kind), getattr(kind, "retired", {})
    given = {}
    for name, value in values.items():
        if name in retired and name not in hints:
            if retired[name] not in (..., value):
                raise InputError(f"{where}.{name}={value!r} is not supported any more: use an earlier autocl")
        elif name not in hints:
            raise InputError(
                f"{where} has no setting {name!r}:{guess(str(name), hints)} written by a newer autocl?"
            )
        else:
            given[name] = _read(f"{where}.{name}", value, hints[name])
    required = [f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING]
    if missing := [name for name in required if name not in given]:
        raise InputError(f"{where} lacks {', '.join(missing)}")
    return kind(**given)


def one_from_dict(kinds: Sequence[type[C]], values: Any, *, where: str) -> C:
    """The inverse of `to_dict(…, tagged=True)`: one of several dataclasses; without a tag, the first."""
    if not isinstance(values, Mapping):
        raise InputError(f"{where} must be an object with settings, got {values!r}")
    names = [kind.__name__ for kind in kinds]
    rest = dict(values)
    kind = rest.pop("type", names[0])
    check_choice(f"{where}.type", kind, names)
    return from_dict(kinds[names.index(kind)], rest, where=where)


def check_choice(where: str, value: Any, choices: Sequence[Any]) -> None:
    """Refuse a value that is not among the choices."""
    if value not in choices:
        near = guess(value, [c for c in choices if isinstance(c, str)]) if isinstance(value, str) else ""
        listed = ", ".join(str(c) or "''" for c in choices)
        raise InputError(f"{where}={value!r} is not known:{near} choose one of {listed}")


@cache
def _hints(kind: type) -> dict[str, Any]:
    hints = get_type_hints(kind, include_extras=True)
    return {f.name: hints[f.name] for f in fields(kind)}


def _check_value(where: str, value: Any, hint: Any) -> None:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        _check_value(where, value, arguments[0])
        for extra in arguments[1:]:
            if isinstance(extra, Range) and value not in extra:
                raise InputError(f"{where} must be {extra}, got {value}")
            if isinstance(extra, OneOf):
                check_choice(where, value, extra.names())
    elif origin is Literal:
        check_choice(where, value, arguments)
    elif origin in (Union, types.UnionType):
        _check_union(where, value, arguments)
    elif origin is tuple:
        _check_tuple(where, value, arguments)
    elif isinstance(hint, type) and not _is(value, hint):
        raise InputError(f"{where} must be {_WORDS.get(hint, f'a {hint.__name__}')}, got {value!r}")


def _check_union(where: str, value: Any, options: Sequence[Any]) -> None:
    errors = []
    for option in options:
        try:
            _check_value(where, value, option)
            return
        except InputError as error:
            errors.append(error)
    # The first alternative is the usual one; the others are mostly None.
    raise errors[0]


def _check_tuple(where: str, value: Any, arguments: Sequence[Any]) -> None:
    if not isinstance(value, tuple):
        raise InputError(f"{where} must be a tuple, got {value!r}")
    hints = [arguments[0]] * len(value) if len(arguments) == 2 and arguments[1] is ... else list(arguments)
    if len(hints) != len(value):
        raise InputError(f"{where} must have {len(hints)} values, got {value!r}")
    for i, (part, hint) in enumerate(zip(value, hints, strict=True)):
        _check_value(f"{where}[{i}]", part, hint)


def _is(value: Any, kind: type) -> bool:
    if kind in (int, float):
        return isinstance(value, (int, kind)) and not isinstance(value, bool)
    return isinstance(value, kind)


_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text", type(None): "nothing"}


def _read(where: str, value: Any, hint: Any) -> Any:
    """A value of JSON as its annotation wants it; what has the wrong type is left to `check`."""
    if get_origin(hint) is tuple and isinstance(value, list):
        inner = get_args(hint)[0]
        return tuple(_read(f"{where}[{i}]", part, inner) for i, part in enumerate(value))
    kinds = _dataclasses(hint)
    if not kinds or not isinstance(value, Mapping):
        return value
    if len(kinds) > 1:
        return one_from_dict(kinds, value, where=where)
    return from_dict(kinds[0], value, where=where)


def _dataclasses(hint: Any) -> list[Any]:
    """The dataclasses among the alternatives of an annotation."""
    options = get_args(hint) if get_origin(hint) in (Union, types.UnionType, Annotated) else (hint,)
    return [option for option in options if is_dataclass(option)]


def _plain(value: Any, *, tagged: bool) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return to_dict(value, tagged=tagged)
    if isinstance(value, tuple | list):
        return [_plain(part, tagged=tagged) for part in value]
    return value
