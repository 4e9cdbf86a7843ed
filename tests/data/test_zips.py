"""The zip reader that keeps no index, beside Python's own."""

import io
import struct
import tracemalloc
import zipfile
from collections.abc import Callable, Iterable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocl.data.readers import zips
from autocl.data.readers.zips import Zip

NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0/\\"), min_size=1, max_size=300)


def _zipped(content: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> io.BytesIO:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    return file


def _read(file: io.BytesIO) -> dict[str, bytes]:
    archive = Zip(file)
    return {entry.name: archive.read(entry.at) for entry in archive.entries()}


@given(st.dictionaries(NAMES, st.binary(max_size=200), max_size=8), st.binary(max_size=50), st.booleans())
def test_reads_what_zipfile_wrote(content: dict[str, bytes], comment: bytes, packed: bool) -> None:
    file = _zipped(content, zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED)
    with zipfile.ZipFile(file, "a") as archive:
        archive.comment = comment
    if b"PK\x05\x06" not in comment:
        assert _read(file) == content


def test_folders_are_left_out() -> None:
    assert _read(_zipped({"a/": b"", "a/b": b"x"})) == {"a/b": b"x"}


def test_more_entries_than_the_short_record_can_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 10)  # the writer now uses the long record
    content = {f"{i}.txt": str(i).encode() for i in range(30)}
    file = _zipped(content)
    assert b"PK\x06\x06" in file.getvalue()
    assert _read(file) == content


def test_directory_longer_than_a_piece() -> None:
    content = {f"{i:05d}{'n' * 250}": b"" for i in range(1500)}
    file = _zipped(content)
    assert Zip(file)._size > zips._PIECE
    assert _read(file) == content


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_compressions_are_refused(method: int) -> None:
    with pytest.raises(zipfile.BadZipFile, match="method"):
        _read(_zipped({"a": b"x" * 100}, method))


def test_encryption_is_refused() -> None:
    data = bytearray(_zipped({"a": b"x"}).getvalue())
    data[data.rfind(b"PK\x01\x02") + 8] |= 1
    with pytest.raises(zipfile.BadZipFile, match="encrypted"):
        _read(io.BytesIO(bytes(data)))


def test_content_beyond_4_gb_is_refused() -> None:
    data = bytearray(_zipped({"a": b"x"}).getvalue())
    struct.pack_into("<L", data, data.rfind(b"PK\x01\x02") + 42, 0xFFFFFFFF)
    with pytest.raises(zipfile.BadZipFile, match="4 GB"):
        _read(io.BytesIO(bytes(data)))


def test_no_flipped_bit_gives_other_content() -> None:
    content = {"a/first.png": b"0123456789" * 5, "b/second.png": bytes(range(100))}
    whole = _zipped(content).getvalue()
    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            found = _read(io.BytesIO(bytes(damaged)))
        except (zipfile.BadZipFile, zips.zlib.error):
            continue
        assert found == content, bit


def test_a_length_that_skips_a_listing_is_noticed() -> None:
    data = bytearray(_zipped({"a": b"x", "b": b"y"}).getvalue())
    first = data.find(b"PK\x01\x02")
    second = data.find(b"PK\x01\x02", first + 1)
    end = data.find(b"PK\x05\x06")
    struct.pack_into("<H", data, first + 32, end - second)  # its comment swallows the second listing exactly
    with pytest.raises(zipfile.BadZipFile, match="1 entries where it should have 2"):
        _read(io.BytesIO(bytes(data)))


def test_listing_costs_less_than_zipfile() -> None:
    file = _zipped({f"folder/{i:06d}.png": b"" for i in range(5000)})

    def peak_of(listing: Callable[[], Iterable[object]]) -> int:
        tracemalloc.start()
        sum(1 for _ in listing())
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return peak

    with_index = peak_of(lambda: zipfile.ZipFile(file).infolist())
    assert peak_of(lambda: Zip(file).entries()) < with_index / 3
