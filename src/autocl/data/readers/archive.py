"""Members of a zip or of a tar with any compression, one after the other."""

import bz2
import gzip
import lzma
import shutil
import tarfile
import zipfile
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import IO, cast

from autocl.data.readers.zips import Zip

_COMPRESSIONS: dict[bytes, Callable[..., IO[bytes]]] = {
    b"\x1f\x8b": cast("Callable[..., IO[bytes]]", gzip.open),
    b"\xfd7zXZ\x00": cast("Callable[..., IO[bytes]]", lzma.open),
    b"BZh": cast("Callable[..., IO[bytes]]", bz2.open),
}
"""How each kind of file starts, and what opens it."""


def _in_tar(path: Path) -> Iterator[tuple[tarfile.TarInfo, IO[bytes]]]:
    """The files of a tar as a stream: no index is built, and nothing is decompressed twice.

    The decompression is not left to tarfile, which ignores gzip's check sum; and the file is read to its
    end, where that sum stands.
    """
    with path.open("rb") as probe:
        magic = probe.read(6)
    opener = next((opener for start, opener in _COMPRESSIONS.items() if magic.startswith(start)), open)
    with opener(path, "rb") as file:
        with tarfile.open(fileobj=file, mode="r|") as stream:
            for member in stream:
                # It would remember them all: a kilobyte each, 110,000 in Tiny-ImageNet.
                stream.members = []  # type: ignore[attr-defined]
                content = stream.extractfile(member) if member.isfile() else None
                if content is not None:
                    yield member, content
        while file.read(1 << 20):
            pass


def members(path: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    """Name and content of each wanted file, in the archive's order.

    The archive is read to its end, so that the check sums of its compression are checked.

    Args:
        path: a .zip, or a .tar, .tar.gz, .tar.xz or .tar.bz2 (told by content, not by name).
        wanted: called with each member's name.
    """
    if zipfile.is_zipfile(path):
        with path.open("rb") as file:
            archive = Zip(file)
            for entry in archive.entries():
                if wanted(entry.name):
                    yield entry.name, archive.read(entry.at)
        return
    for member, content in _in_tar(path):
        if wanted(member.name):
            data = content.read()
            if len(data) != member.size:
                raise EOFError(f"{member.name} has {len(data)} of its {member.size} bytes")
            yield member.name, data


def extract(path: Path, names: Collection[str], folder: Path) -> dict[str, Path]:
    """Unpack the members with these base names from a tar into `folder`, without holding them in memory.

    Raises:
        KeyError: when one of them is missing.
    """
    out = {}
    for member, content in _in_tar(path):
        name = member.name.rpartition("/")[2]
        if name not in names:
            continue
        out[name] = folder / name
        with out[name].open("wb") as file:
            shutil.copyfileobj(content, file)
        if out[name].stat().st_size != member.size:
            raise EOFError(f"{member.name} is cut off")
    for name in names:
        if name not in out:
            raise KeyError(f"it has no member {name}")
    return out
