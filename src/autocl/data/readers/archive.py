"""Members of a zip or of a tar with any compression, one after the other."""

import bz2
import gzip
import lzma
import shutil
import tarfile
import zipfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from autocl.data.readers.zips import Zip

_COMPRESSIONS: dict[bytes, Callable[..., IO[bytes]]] = {
    b"\x1f\x8b": cast("Callable[..., IO[bytes]]", gzip.open),
    b"\xfd7zXZ\x00": cast("Callable[..., IO[bytes]]", lzma.open),
    b"BZh": cast("Callable[..., IO[bytes]]", bz2.open),
}
"""How each kind of file starts, and what opens it."""


@contextmanager
def _tar(path: Path) -> Iterator[tarfile.TarFile]:
    """A tar as a stream: no index is built, and nothing is decompressed twice.

    The decompression is not left to tarfile, which ignores gzip's check sum; and the file is read to its
    end, where that sum stands.
    """
    with path.open("rb") as probe:
        magic = probe.read(6)
    opener = next((opener for start, opener in _COMPRESSIONS.items() if magic.startswith(start)), open)
    with opener(path, "rb") as file:
        with tarfile.open(fileobj=file, mode="r|") as stream:
            yield stream
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
    with _tar(path) as stream:
        for member in stream:
            if member.isfile() and wanted(member.name):
                content = stream.extractfile(member)
                data = content.read() if content is not None else b""
                if len(data) != member.size:
                    raise EOFError(f"{member.name} has {len(data)} of its {member.size} bytes")
                yield member.name, data


def extract(path: Path, names: Collection[str], folder: Path) -> dict[str, Path]:
    """Unpack the members with these base names from a tar into `folder`, without holding them in memory.

    Raises:
        KeyError: when one of them is missing.
    """
    out = {}
    with _tar(path) as stream:
        for member in stream:
            name = member.name.rpartition("/")[2]
            content = stream.extractfile(member) if member.isfile() and name in names else None
            if content is None:
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
