"""FeatureStore: rows of features on disk, written chunk by chunk, believed only by their check sums.

One folder holds `meta.json` (what the rows are of), `features.npy` (of full size from the start, so that it
can be memory-mapped) and `chunks.jsonl` (a line for every finished chunk, with its SHA-256). A chunk's line
is written after its rows have reached the disk, so that a kill at any moment loses unfinished chunks only.
"""

import json
import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, TypedDict

import numpy as np
import numpy.typing as npt

from autocl.data.featureset import Floats
from autocl.errors import FileError
from autocl.files import write_json
from autocl.typed_json import parse_json, read_json

log = logging.getLogger(__name__)

Precision = Literal["float16", "float32"]


class ChunkLine(TypedDict):
    """A finished chunk."""

    chunk: int
    sha256: str


class FeatureStore:
    """The rows [n, F] of one key, `chunk` rows at a time.

    Whoever writes must hold a lock on the folder.
    """

    def __init__(
        self, folder: Path, key: str, *, n: int, n_features: int, dtype: Precision, chunk: int
    ) -> None:
        self.folder = folder
        self.meta: dict[str, Any] = {"key": key, "shape": [n, n_features], "dtype": dtype, "chunk": chunk}
        self.n, self.chunk, self.dtype = n, chunk, np.dtype(dtype)
        self.row_bytes = n_features * self.dtype.itemsize

    def spans(self) -> Iterator[tuple[int, slice]]:
        """Every chunk's number and rows."""
        for number, start in enumerate(range(0, self.n, self.chunk)):
            yield number, slice(start, min(start + self.chunk, self.n))

    def open(self) -> None:
        """Keep what an earlier job left if it belongs to this key, else start empty."""
        if self._is_ours():
            return
        if self.folder.exists():
            log.warning("feature cache %s is damaged or of something else: making it again", self.folder)
            shutil.rmtree(self.folder)
        self.folder.mkdir(parents=True)
        with (self.folder / "features.npy").open("wb") as file:
            header = {"descr": self.dtype.str, "fortran_order": False, "shape": tuple(self.meta["shape"])}
            np.lib.format.write_array_header_1_0(file, header)
            file.truncate(file.tell() + self.n * self.row_bytes)
        write_json(self.folder / "meta.json", self.meta)

    def missing(self) -> list[tuple[int, slice]]:
        """The chunks that are not there, or not as they were written."""
        rows, sums = self.rows(), self._sums()
        return [
            (number, span)
            for number, span in self.spans()
            if sums.get(number) != sha256(np.ascontiguousarray(rows[span]).data).hexdigest()
        ]

    def whole(self) -> Floats | None:
        """All rows, memory-mapped read-only, if every chunk is there and unchanged; else None."""
        return self.rows() if self._is_ours() and not self.missing() else None

    def write(self, number: int, span: slice, rows: npt.NDArray[np.float32]) -> None:
        """Put one chunk's rows on the disk, then its check sum."""
        data = np.ascontiguousarray(rows, self.dtype).tobytes()
        with (self.folder / "features.npy").open("r+b") as file:
            file.seek(-(self.n - span.start) * self.row_bytes, os.SEEK_END)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        line = json.dumps({"chunk": number, "sha256": sha256(data).hexdigest()})
        with (self.folder / "chunks.jsonl").open("a") as text:
            text.write(f"\n{line}\n")  # the first break ends a line that a kill may have cut
            text.flush()
            os.fsync(text.fileno())

    def rows(self) -> Floats:
        """[n, F] as the file has it, memory-mapped read-only."""
        mapped = np.load(self.folder / "features.npy", mmap_mode="r", allow_pickle=False)
        found: Floats = mapped.view(np.ndarray)
        return found

    def _is_ours(self) -> bool:
        try:
            meta = read_json(self.folder / "meta.json", dict[str, Any])
            rows = self.rows()
        except (OSError, ValueError, EOFError):
            return False
        return bool(meta == self.meta and list(rows.shape) == meta["shape"] and rows.dtype == self.dtype)

    def _sums(self) -> dict[int, str]:
        """Check sum of each chunk that was finished; the last line about a chunk counts."""
        path = self.folder / "chunks.jsonl"
        if not path.is_file():
            return {}
        sums = {}
        for line in path.read_text(errors="replace").splitlines():
            with suppress(FileError):  # a line that a kill has cut: its chunk is computed again
                entry = parse_json(line, ChunkLine, where=str(path))
                sums[entry["chunk"]] = entry["sha256"]
        return sums
