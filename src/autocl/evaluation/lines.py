"""Files of JSON lines, one compact object each, sorted by their keys: the same content is the same file."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from filelock import FileLock

from autocl.errors import FileError
from autocl.files import write_text


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a file; none when there is no such file."""
    if not path.is_file():
        return []
    values = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            value = json.loads(line)
        except ValueError as error:
            raise FileError(f"{path}, line {number}: not JSON ({error}); delete the line") from error
        if not isinstance(value, dict):
            raise FileError(f"{path}, line {number}: not an object, got {line[:40]!r}; delete the line")
        values.append(value)
    return values


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
        found = {tuple(v[k] for k in key): v for v in [*read_lines(path), *values]}
        lines = [json.dumps(found[k], ensure_ascii=False, separators=(",", ":")) for k in sorted(found)]
        write_text(path, "\n".join(lines) + "\n")
