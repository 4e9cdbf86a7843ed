"""Zips of very many small files, read without an index in memory.

`zipfile` keeps an object of about 600 bytes for each entry: for Omniglot's 32,000 drawings that is five
times the decoded validation set. Here an entry is a number, the place where the zip's directory lists it,
and is looked up again when its content is wanted.
"""

import struct
import zlib
from collections.abc import Iterator
from typing import IO, NamedTuple
from zipfile import BadZipFile

_END = struct.Struct("<4s4H2LH")
_LOCATOR = struct.Struct("<4sLQL")
_LONG_END = struct.Struct("<4sQ2H2L4Q")
_LISTED = struct.Struct("<4s6H3L5H2L")
_LOCAL = struct.Struct("<4s5H3L2H")

_LONGEST_COMMENT = 0xFFFF
_LONGEST_LISTING = _LISTED.size + 3 * 0xFFFF
_PIECE = 1 << 18
"""Bytes of the directory in memory at a time; more than the longest listing."""
_ELSEWHERE = 0xFFFFFFFF
"""Stands for a number that does not fit 32 bits."""


class Entry(NamedTuple):
    """A file in a zip."""

    name: str
    at: int
    """Where in the zip it is listed; what `Zip.read` wants."""


class _Listed(NamedTuple):
    """What the directory says of an entry."""

    name: bytes
    unicode: bool
    method: int
    crc: int
    packed: int
    size: int
    offset: int
    length: int
    """Bytes of the listing itself."""


class Zip:
    """A zip as a sequence of entries; each name and content is checked as it is read.

    Example:
        >>> import io, zipfile
        >>> file = io.BytesIO()
        >>> with zipfile.ZipFile(file, "w") as made:
        ...     made.writestr("a/b.txt", "hello")
        >>> archive = Zip(file)
        >>> [(entry.name, archive.read(entry.at)) for entry in archive.entries()]
        [('a/b.txt', b'hello')]
    """

    def __init__(self, file: IO[bytes]) -> None:
        """Find the directory.

        Args:
            file: open for reading; stays the caller's to close.

        Raises:
            BadZipFile: when there is none.
        """
        self._file = file
        self._start, self._size, self._count = self._directory()

    def entries(self) -> Iterator[Entry]:
        """All files, in the directory's order; folders are left out.

        A name is the one thing in a zip without a check sum, and a damaged one could move or hide a file:
        each is compared with its second copy, which stands before the content. A damaged length could skip
        listings: they must be as many as the zip says, and fill the directory.
        """
        at, end, count = self._start, self._start + self._size, 0
        piece, piece_at = b"", at
        while at < end:
            if at + _LONGEST_LISTING > piece_at + len(piece) < end:
                piece, piece_at = self._bytes(at, min(_PIECE, end - at)), at
            listed = _listed(piece, at - piece_at)
            self._content_start(listed)
            name = listed.name.decode("utf-8" if listed.unicode else "cp437")
            if not name.endswith("/"):
                yield Entry(name, at)
            at += listed.length
            count += 1
        if at != end or count != self._count:
            raise BadZipFile(f"its directory lists {count} entries where it should have {self._count}")

    def read(self, at: int) -> bytes:
        """The content of the entry that is listed at `at`.

        Raises:
            BadZipFile: when the content does not agree with its size or check sum, or is packed in a way no
                image set uses.
        """
        name_length = _LISTED.unpack(self._bytes(at, _LISTED.size))[10]
        listed = _listed(self._bytes(at, _LISTED.size + name_length), 0)
        packed = self._bytes(self._content_start(listed), listed.packed)
        if listed.method == 8:
            content = zlib.decompress(packed, wbits=-zlib.MAX_WBITS, bufsize=max(listed.size, 1))
        elif listed.method == 0:
            content = packed
        else:
            raise BadZipFile(f"{listed.name!r} is compressed by method {listed.method}, not by deflate")
        if len(content) != listed.size or zlib.crc32(content) != listed.crc:
            raise BadZipFile(f"the content of {listed.name!r} does not match its size and check sum")
        return content

    def _bytes(self, at: int, count: int) -> bytes:
        self._file.seek(at)
        data = self._file.read(count)
        if len(data) != count:
            raise BadZipFile(f"the file ends {count - len(data)} bytes too early")
        return data

    def _directory(self) -> tuple[int, int, int]:
        """First byte, length and entries of the directory, from the record at the end of the file."""
        length = self._file.seek(0, 2)
        tail_at = max(length - _END.size - _LONGEST_COMMENT, 0)
        tail = self._bytes(tail_at, length - tail_at)
        found = tail.rfind(b"PK\x05\x06")
        if found < 0 or found + _END.size > len(tail):
            raise BadZipFile("it does not end like a zip")
        end = tail_at + found
        *_, count, size, start, comment = _END.unpack_from(tail, found)
        if end + _END.size + comment != length:
            raise BadZipFile("something follows its end")
        if end >= _LOCATOR.size:
            magic, _, long_end, _ = _LOCATOR.unpack(self._bytes(end - _LOCATOR.size, _LOCATOR.size))
            if magic == b"PK\x06\x07":  # more than 65,535 entries, or 4 GB
                end = long_end
                magic, *_, count, size, start = _LONG_END.unpack(self._bytes(end, _LONG_END.size))
                if magic != b"PK\x06\x06":
                    raise BadZipFile("the second record of its end is damaged")
        if start + size != end:
            raise BadZipFile("its directory is not where it should be")
        return start, size, count

    def _content_start(self, listed: _Listed) -> int:
        """Where the content of an entry begins, after a header that must agree with the listing."""
        header = self._bytes(listed.offset, _LOCAL.size + len(listed.name))
        magic, *_, name_length, extra_length = _LOCAL.unpack_from(header)
        if magic != b"PK\x03\x04" or name_length != len(listed.name) or header[_LOCAL.size :] != listed.name:
            raise BadZipFile(f"the directory lists {listed.name!r} where the zip has something else")
        return listed.offset + len(header) + int(extra_length)


def _listed(directory: bytes, at: int) -> _Listed:
    """The listing at a place of the directory."""
    if at + _LISTED.size > len(directory):
        raise BadZipFile("its directory is cut off")
    fields = _LISTED.unpack_from(directory, at)
    magic, flags, method, crc, packed, size = fields[0], fields[3], fields[4], *fields[7:10]
    name_length, offset = fields[10], fields[16]
    name = directory[at + _LISTED.size : at + _LISTED.size + name_length]
    if magic != b"PK\x01\x02" or len(name) != name_length:
        raise BadZipFile("its directory is damaged")
    if flags & 1:
        raise BadZipFile(f"{name!r} is encrypted")
    if _ELSEWHERE in (packed, size, offset):
        raise BadZipFile(f"{name!r} lies beyond 4 GB, where no image set reaches")
    return _Listed(
        name=name, unicode=bool(flags & 0x800), method=method, crc=crc, packed=packed, size=size,
        offset=offset, length=_LISTED.size + sum(fields[10:13]),
    )  # fmt: skip
