"""The catalogue: what is known about every image set before any of its files is opened.

Each file in `autocl.data.sets` describes a set, or several made from the same files; every `SetInfo` at the
top of one is found here by itself.
"""

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autocl.data import sets
from autocl.data.archives import Raw
from autocl.errors import DataError
from autocl.names import resolve

Options = Mapping[str, Any]


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
class FileLayout:
    """One way a set can lie on a disk."""

    title: str
    files: tuple[DataFile, ...]
    read: Callable[[Mapping[str, Path], str, Options], Raw]
    """(path of each file by its name, split, options) -> the content."""
    notes: str = ""
    """A reason why results made from these files may not be comparable; goes into `ImageSet.notes`."""

    def files_for(self, split: str) -> tuple[DataFile, ...]:
        """The files needed to read `split`."""
        return tuple(file for file in self.files if not file.splits or split in file.splits)


@dataclass(frozen=True, kw_only=True)
class SetInfo:
    """Facts about a set; `load` and meta-training need no others."""

    name: str
    title: str
    splits: tuple[str, ...] = ("train", "test")
    layouts: tuple[FileLayout, ...] = ()
    """In order of preference when several lie in the same folder. Empty: the set is made, not read."""
    make: Callable[[str, int, Options], Raw] | None = None
    """(split, size, options) -> the content, for sets that need no files."""
    channels: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    paper_mean: tuple[float, ...] | None = None
    """The authors' values, where their code does not normalise with the correct ones."""
    paper_std: tuple[float, ...] | None = None
    options: Options = field(default_factory=dict)
    """Options of `load` for this set, with their defaults."""
    training_options: Options = field(default_factory=dict)
    """Options that meta-training always sets, such as leaving out classes of a meta-test set."""
    validation_options: Callable[[Options], Options] = dict
    """Function from the options of the training split to those of the validation split."""
    held_out: int = 0
    """Training classes to keep for validation, the last ones, where no split has other classes for it."""
    test_images: int = 0
    """Size of the official test split; a copy with fewer gives other numbers. 0: no such split."""
    folders: tuple[str, ...] = ()
    """Names of the set's folder inside a data folder, besides its own name; the first is where downloads
    go, so that sets made from the same files share them."""
    advice: str = ""
    """Instructions for files that cannot be downloaded; part of the error when they are missing."""
    licence: str
    citation: str


CATALOG: dict[str, SetInfo] = {}
"""Every set `load` knows by name."""


def describe(name: str) -> SetInfo:
    """The entry of a set; a `DataError` that lists the names when there is none."""
    own = "; images of your own are a folder with one folder per class"
    return CATALOG[resolve(name, CATALOG, "image set", hint=own, error=DataError)]


for _module in pkgutil.iter_modules(sets.__path__, sets.__name__ + "."):
    _found = vars(importlib.import_module(_module.name)).values()
    CATALOG |= {info.name: info for info in _found if isinstance(info, SetInfo)}
