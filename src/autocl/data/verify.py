"""Is this file what its name says?"""

import hashlib
from pathlib import Path
from typing import Literal

from autocl.data.description import DataFile

Verdict = Literal["official", "equivalent", "unknown"]


def file_sum(path: Path, algorithm: str) -> str:
    """Hex digest of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


def verdict(file: DataFile, path: Path) -> Verdict:
    """What is known about the content of `path`.

    Returns:
        "official": it is the file of the catalogue, byte for byte; "equivalent": a known other packing of the
        same content; "unknown": neither, or nothing is known to compare with.
    """
    if path.is_dir():
        return "unknown"
    if file.md5 and file_sum(path, "md5") == file.md5:
        return "official"
    if file.sha256 or file.equivalent:
        found = file_sum(path, "sha256")
        if found == file.sha256:
            return "official"
        if found in file.equivalent:
            return "equivalent"
    return "unknown"
