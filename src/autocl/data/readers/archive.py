"""Members of a zip or of a tar with any compression, one after the other."""

import tarfile
import zipfile
from collections.abc import Callable, Iterator
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
