"""Helpers of every set's reader: blocks of images, members of archives, and errors that name the file.

A reader streams, so that a set never has to be in memory twice: it yields images in file order, a few
hundred at a time, and whoever consumes them resizes and sorts. Nothing is inflated beyond the size that the
set can have.

Shape legend: m = images of a block, H, W = pixels as stored.
"""

import bz2
import gzip
import lzma
import shutil
import tarfile
import zipfile
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import numpy.typing as npt

from autocl.errors import AutoclError, DataError
from autocl.pictures import decode

Block = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]
"""uint8 [m, H, W] or [m, H, W, 3], and int64 [m]: the class number of each image."""

SMALL = 1 << 21
"""Bytes that no single picture of the sets is larger than, and pixels likewise; strips included."""

_COMPRESSIONS: dict[bytes, Callable[..., Any]]
_COMPRESSIONS = {b"\x1f\x8b": gzip.open, b"\xfd7zXZ\x00": lzma.open, b"BZh": bz2.open}
"""First bytes of each kind of compressed file, and the function that opens it."""


@dataclass(frozen=True, kw_only=True)
class Raw:
    """The content of one split of one set, not yet read."""

    classes: tuple[str, ...]
    blocks: Iterable[Block]
    notes: str = ""


@contextmanager
def reading(path: Path, expected: str) -> Iterator[None]:
    """Turn any failure while reading `path` into one `DataError` that names the file and the remedy."""
    try:
        yield
    except DataError:
        raise
    except FileNotFoundError as error:
        raise DataError(f"{path} does not exist: expected {expected}") from error
    except Exception as error:
        # Damaged bytes make the standard library, numpy, scipy and Pillow raise almost anything.
        kind = "" if isinstance(error, AutoclError) else type(error).__name__
        detail = str(error).splitlines()[0] if str(error) else ""
        raise DataError(
            f"{path} cannot be read as {expected} ({': '.join(filter(None, (kind, detail)))}). "
            "The file is damaged, incomplete or of another kind: delete it and get it again"
        ) from error


def damaged(path: Path, expected: str, found: str) -> DataError:
    """The error for a file that can be read but holds something else than it should."""
    return DataError(
        f"{path} is not {expected}: {found}. The file is damaged, incomplete or of another kind: "
        "delete it and get it again"
    )


def hold_out(raw: Raw, split: str) -> Raw:
    """A split for sets that come without one: every fifth image in file order is for testing."""

    def blocks() -> Iterator[Block]:
        at = 0
        for images, labels in raw.blocks:
            testing = (np.arange(at, at + len(labels)) + 1) % 5 == 0
            chosen = testing if split == "test" else ~testing
            at += len(labels)
            yield images[chosen], labels[chosen]

    notes = "split made by autocl: every fifth image in file order is for testing"
    return Raw(classes=raw.classes, blocks=blocks(), notes=notes)


def bounded(size: int, limit: int, what: str) -> int:
    """The size, when it is no larger than the set can have; else a `ValueError`, before anything is read."""
    if size > limit:
        raise ValueError(f"{what} would have {size:,} bytes, more than the {limit:,} that this set can have")
    return size


def members(path: Path, wanted: Callable[[str], bool], *, total: int) -> Iterator[tuple[str, bytes]]:
    """Name and content of each wanted file, in the archive's order.

    The archive is read to its end, so that the check sums of its compression are checked.

    Args:
        path: a .zip, or a .tar, .tar.gz, .tar.xz or .tar.bz2 (told by content, not by name).
        wanted: called with each member's name.
        total: bytes that all members have at most; none of the wanted ones may have more than `SMALL`.
    """
    if zipfile.is_zipfile(path):
        with open_zip(path) as archive:
            yield from zip_members(archive, wanted)
        return
    for member, content in _in_tar(path, total):
        if wanted(member.name):
            data = content.read(bounded(member.size, SMALL, member.name))
            if len(data) != member.size:
                raise EOFError(f"{member.name} has {len(data)} of its {member.size} bytes")
            yield member.name, data


@contextmanager
def open_zip(path: Path) -> Iterator[zipfile.ZipFile]:
    """A zip that lists as many files as its last record says: a damaged length could hide some."""
    with zipfile.ZipFile(path) as archive, path.open("rb") as file:
        file.seek(-12 - len(archive.comment), 2)
        count = int.from_bytes(file.read(2), "little")
        if count not in (len(archive.infolist()), 0xFFFF):  # the last means: more
            raise zipfile.BadZipFile(f"it lists {len(archive.infolist())} files where it should have {count}")
        yield archive


def zip_members(archive: zipfile.ZipFile, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    """The wanted files of a zip, in the order of its directory.

    All files are opened, wanted or not: that compares each name, the one thing in a zip without a check sum,
    with its second copy. A damaged name could move or hide a file.
    """
    for info in archive.infolist():
        with archive.open(info) as file:
            if not info.is_dir() and wanted(info.filename):
                yield info.filename, file.read(bounded(info.file_size, SMALL, info.filename))


def zip_member(archive: zipfile.ZipFile, name: str) -> bytes:
    """One file of a zip."""
    bounded(archive.getinfo(name).file_size, SMALL, name)
    return archive.read(name)


def extract(path: Path, names: Collection[str], folder: Path, *, total: int) -> dict[str, Path]:
    """Unpack the members with these base names from a tar into `folder`, without holding them in memory.

    Raises:
        KeyError: when one of them is missing.
    """
    out = {}
    for member, content in _in_tar(path, total):
        name = member.name.rpartition("/")[2]
        if name not in names:
            continue
        out[name] = folder / name
        with out[name].open("wb") as file:
            shutil.copyfileobj(content, file)
        if out[name].stat().st_size != member.size:
            raise EOFError(f"{member.name} is cut off")
    if missing := [name for name in names if name not in out]:
        raise KeyError(f"it has no member {missing[0]}")
    return out


def read_npz(path: Path, *names: str, total: int) -> tuple[npt.NDArray[Any], ...]:
    """Arrays of an npz whose members have no more than `total` bytes together."""
    with open_zip(path) as archive:
        bounded(sum(info.file_size for info in archive.infolist()), total, path.name)
    with np.load(path, allow_pickle=False) as arrays:
        return tuple(arrays[name] for name in names)


def picture(data: bytes | Path, channels: int) -> npt.NDArray[np.uint8]:
    """Pixels of one small image file: [H, W] for one channel, [H, W, 3] for three."""
    return decode(data, channels=channels, max_pixels=SMALL)


def cut_strip(data: bytes, count: int) -> npt.NDArray[np.uint8]:
    """Pictures stacked top to bottom in one image file of [count·W, W] pixels: uint8 [count, W, W, 3]."""
    strip = picture(data, 3)
    height, width = strip.shape[:2]
    if height != count * width:
        raise ValueError(f"a strip of {width}×{height} pixels does not hold {count} square pictures")
    return strip.reshape(count, width, width, 3)


class _Bounded:
    """A file that refuses to give more than `limit` bytes."""

    def __init__(self, file: IO[bytes], limit: int) -> None:
        self._file, self._limit, self._given = file, limit, 0

    def read(self, size: int) -> bytes:
        data = self._file.read(size)
        self._given = bounded(self._given + len(data), self._limit, "the unpacked archive")
        return data


def _in_tar(path: Path, total: int) -> Iterator[tuple[tarfile.TarInfo, IO[bytes]]]:
    """The files of a tar as a stream: no index is built, and nothing is decompressed twice.

    The decompression is not left to tarfile, which ignores gzip's check sum; and the file is read to its
    end, where that sum stands.
    """
    with path.open("rb") as probe:
        magic = probe.read(6)
    opener = next((opener for start, opener in _COMPRESSIONS.items() if magic.startswith(start)), open)
    with opener(path, "rb") as opened:
        file = _Bounded(opened, total)
        with tarfile.open(fileobj=cast("IO[bytes]", file), mode="r|") as stream:
            for member in stream:
                # It would remember them all: a kilobyte each, 110,000 in Tiny-ImageNet.
                stream.members = []  # type: ignore[attr-defined]
                bounded(member.size, total, member.name)
                content = stream.extractfile(member) if member.isfile() else None
                if content is not None:
                    yield member, content
        while file.read(1 << 20):
            pass
