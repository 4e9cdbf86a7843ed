"""How a set is described: its files, the forms it comes in, its splits and its statistics."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autocl.data.readers.block import Raw


@dataclass(frozen=True, kw_only=True)
class DataFile:
    """One file of a set, as its authors or a known packager made it."""

    name: str
    sha256: str = ""
    md5: str = ""
    """At least one of the two sums is known for every file that can be downloaded."""
    equivalent: tuple[str, ...] = ()
    """SHA-256 of known other packings of the same content."""
    urls: tuple[str, ...] = ()
    """Official address first, then mirrors. Empty: the file has to be put in place by hand."""
    splits: tuple[str, ...] = ()
    """The splits that need this file; empty: all."""


@dataclass(frozen=True, kw_only=True)
class Form:
    """One way a set can lie on a disk."""

    title: str
    files: tuple[DataFile, ...]
    read: Callable[[Mapping[str, Path], str, Mapping[str, Any]], Raw]
    """(path of each file by its name, split, options) -> the content."""
    notes: str = ""
    """Why a result made from this form may not be comparable; goes into `ImageSet.notes`."""
    splits: tuple[str, ...] = ()
    """The splits this form can give; empty: all of the set."""

    def files_for(self, split: str) -> tuple[DataFile, ...]:
        """The files needed to read `split`."""
        return tuple(file for file in self.files if not file.splits or split in file.splits)


@dataclass(frozen=True, kw_only=True)
class SetInfo:
    """Everything known about a set before any of its files is opened."""

    name: str
    title: str
    splits: tuple[str, ...]
    forms: tuple[Form, ...] = ()
    """In order of preference when several lie in the same folder. Empty: the set is made, not read."""
    make: Callable[[str, int, Mapping[str, Any]], Raw] | None = None
    """(split, size, options) -> the content, for sets that need no files."""
    channels: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    paper_mean: tuple[float, ...] | None = None
    """Where the authors' code normalises with other values than the correct ones."""
    paper_std: tuple[float, ...] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of `load` for this set, with their defaults."""
    folders: tuple[str, ...] = ()
    """Names of the set's folder inside a data folder, besides its own name; the first is where downloads
    go, so that sets made from the same files share them."""
    licence: str
    citation: str
