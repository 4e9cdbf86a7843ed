"""Files of JSON lines, one compact object each, sorted by their keys: the same content is the same file."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from filelock import FileLock

from autocl.errors import FileError
from autocl.files import write_text
from autocl.typed_json import read_json_lines

T = TypeVar("T")


def read_lines(path: Path, form: type[T]) -> list[T]:
    """The objects of a file, each of the form given (see `parse_json`); none when there is no such file."""
    return read_json_lines(path, form) if path.is_file() else []


def put_lines(path: Path, values: Iterable[Mapping[str, Any]], *, key: Sequence[str]) -> None:
    """Add objects to a file, in the place of older ones with the same key; other processes wait meanwhile.

    Args:
        path: made if it is not there.
        values: what JSON can say.
        key: names of the fields that tell objects apart, and order them.
    """
    values = list(values)
    if not values:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.parent / ".lock"):
        found = {tuple(v[k] for k in key): v for v in [*_keyed(path, key), *values]}
        lines = [json.dumps(found[k], ensure_ascii=False, separators=(",", ":")) for k in sorted(found)]
        write_text(path, "\n".join(lines) + "\n")


def _keyed(path: Path, key: Sequence[str]) -> list[dict[str, Any]]:
    """The objects of a file, if text stands in all fields of the key."""
    values = read_lines(path, dict[str, Any])
    for number, value in enumerate(values, 1):
        if not all(isinstance(value.get(k), str) for k in key):
            raise FileError(f"{path}, object {number}: lacks one of {', '.join(key)}; delete the line")
    return values
