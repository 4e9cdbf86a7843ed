"""Members of a zip or of a tar with any compression, one after the other."""

import shutil
import tarfile
import zipfile
from collections.abc import Callable, Collection, Iterator
from pathlib import Path


def members(path: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    """Name and content of each wanted file, in the archive's order.

    The archive is read to its end, so that the check sums of its compression are checked.

    Args:
        path: a .zip, or a .tar, .tar.gz, .tar.xz or .tar.bz2 (told by content, not by name).
        wanted: called with each member's name.
    """
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            for entry in archive.infolist():
                if not entry.is_dir() and wanted(entry.filename):
                    yield entry.filename, archive.read(entry)
        return
    # "r|*" streams: no index is built and nothing is decompressed twice.
    with tarfile.open(path, "r|*") as stream:
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
    with tarfile.open(path, "r|*") as stream:
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
