"""Features computed once: a resumable job from images to a memory-mapped cache of a backbone's vectors.

A cache folder holds `meta.json` (what the rows are of), `features.npy` (of full size from the start, so that
it can be memory-mapped) and `chunks.jsonl` (a line for every finished chunk, with its SHA-256). A chunk's
line is written after its rows have reached the disk, so that a kill at any moment loses unfinished chunks
only.

Shape legend: n = images, F = features.
"""

import json
import logging
import os
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Any, Literal, Protocol, TypedDict

import numpy as np
import numpy.typing as npt
from filelock import FileLock

from autocl.data.cache import cache_folder
from autocl.data.folder import PictureList, list_folder, list_set
from autocl.data.imageset import FeatureSet, Floats, ImageSet
from autocl.errors import FileError, InputError
from autocl.files import write_json
from autocl.progress import progress_bar
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

    def open(self) -> None:
        """Keep what an earlier job left if it belongs to this key, else start empty."""
        if self._is_ours():
            return
        if self.folder.exists():
            log.warning("feature cache %s is damaged or of something else: making it again", self.folder)
            shutil.rmtree(self.folder)
        self.folder.mkdir(parents=True)
        shape = tuple(self.meta["shape"])
        np.lib.format.open_memmap(self.folder / "features.npy", "w+", self.dtype, shape, version=(1, 0))
        write_json(self.folder / "meta.json", self.meta)

    def missing(self) -> list[tuple[int, slice]]:
        """The chunks that are not there, or not as they were written."""
        rows, sums = self.rows(), self._sums()
        spans = (slice(start, min(start + self.chunk, self.n)) for start in range(0, self.n, self.chunk))
        return [
            (number, span)
            for number, span in enumerate(spans)
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


VERSION = 1
"""Raise it when the way pictures are read changes: older folders are then not looked at."""
CHUNK = 128
"""Images between two writes: a kill loses a second or two of work."""
BATCH = 16
"""Pictures of a chunk that are decoded at a time."""


class Encoder(Protocol):
    """The interface that the job needs of a backbone."""

    @property
    def name(self) -> str:
        """Name for people, and for the cache folder."""

    @property
    def fingerprint(self) -> str:
        """Names weights and preprocessing."""

    @property
    def n_features(self) -> int:
        """Length of a vector, F."""

    @property
    def image_size(self) -> int:
        """Pixels a side that are looked at."""

    def __call__(self, images: Sequence[Any], /) -> npt.NDArray[np.float32]:
        """Pillow images to vectors [n, F]; called by several threads at once."""


def compute_features(
    pictures: ImageSet | PictureList | str | Path,
    backbone: Encoder,
    *,
    workers: int = 2,
    dtype: Precision = "float16",
) -> FeatureSet:
    """The features of all pictures, from the cache as far as they are there, else computed and cached.

    The cache lies in `AUTOCL_CACHE` (default `~/.cache/autocl`), under `features`; what is in it is verified
    on every call. A job that was killed goes on where it stopped.

    Args:
        pictures: an image set, a folder with one folder of pictures per class, or a list of files made by
            `autocl.data.folder.list_files`.
        backbone: usually from `autocl.encoders.backbones.get_backbone`.
        workers: chunks in work at once, each in a thread: while one is computed another is read.
        dtype: on disk. Half precision changes no accuracy that was measured (`benchmarks/backbones.py`).
    """
    if isinstance(pictures, str | Path):
        pictures = list_folder(pictures)
    elif isinstance(pictures, ImageSet):
        pictures = list_set(pictures)
    if workers < 1:
        raise InputError(f"workers={workers} is not possible: at least 1")
    store = _store(pictures, backbone, dtype)
    features = store.whole()
    if features is None:
        home = store.folder.parent
        try:
            home.mkdir(parents=True, exist_ok=True)
            with FileLock(home / f"{store.folder.name}.lock"):
                store.open()
                _fill(store, pictures, backbone, workers)
        except OSError as error:
            if isinstance(error, FileError):
                raise
            raise FileError(
                f"{home} cannot be written ({error}): set AUTOCL_CACHE to a folder that can"
            ) from error
        features = store.whole()
    if features is None:
        raise FileError(f"{store.folder} cannot be read back after writing it: the disk is failing")
    return _labelled(features, pictures, store, backbone)


def find_features(pictures: ImageSet, backbone: Encoder) -> FeatureSet | None:
    """The result of `compute_features` if all of it is in the cache, else None."""
    listed = list_set(pictures)
    store = _store(listed, backbone, "float16")
    features = store.whole()
    return None if features is None else _labelled(features, listed, store, backbone)


def _store(pictures: PictureList, backbone: Encoder, dtype: Precision) -> FeatureStore:
    """The folder of these features in the cache, whether it exists or not."""
    if not pictures.hash or len(pictures) == 0:
        raise InputError(f"{pictures.name!r} has no pictures or no hash: features are kept by content")
    made_by = {"backbone": backbone.fingerprint, "n_features": backbone.n_features, "dtype": dtype}
    key = json.dumps({"version": VERSION, "pictures": pictures.hash, **made_by}, sort_keys=True)
    label = "".join(c if c.isalnum() or c in "-_" else "_" for c in f"{pictures.name}-{backbone.name}")[:60]
    folder = cache_folder() / "features" / f"{label}-{_digest(key)[:16]}"
    return FeatureStore(
        folder, key, n=len(pictures), n_features=backbone.n_features, dtype=dtype, chunk=CHUNK
    )


def _labelled(features: Floats, pictures: PictureList, store: FeatureStore, backbone: Encoder) -> FeatureSet:
    return FeatureSet(
        name=pictures.name, split=pictures.split, features=features, starts=pictures.starts,
        classes=pictures.classes, hash=_digest(store.meta["key"]), backbone=backbone.name,
        order=pictures.order, notes=pictures.notes,
    )  # fmt: skip


def _digest(key: str) -> str:
    return sha256(key.encode()).hexdigest()


def _fill(store: FeatureStore, pictures: PictureList, backbone: Encoder, workers: int) -> None:
    """Compute and write the chunks that are missing."""
    missing = store.missing()
    todo = sum(span.stop - span.start for _, span in missing)
    if 0 < todo < len(pictures):
        log.info("%s: %d of %d features are still missing", pictures.name, todo, len(pictures))
    writing = Lock()

    def make(number: int, span: slice) -> int:
        rows = _rows(pictures, span, backbone)
        if not (np.abs(rows) <= float(np.finfo(store.dtype).max)).all():  # also when there is a NaN
            raise InputError(
                f"{backbone.name} gives values up to {np.abs(rows).max():g}, too big for {store.dtype}: "
                "pass dtype='float32', or check its weights"
            )
        with writing:
            store.write(number, span, rows)
        return len(rows)

    title = f"{pictures.name} {pictures.split} {backbone.name}"
    pool = ThreadPoolExecutor(workers)
    try:
        with progress_bar() as bar:
            task = bar.add_task(title, total=len(pictures), completed=len(pictures) - todo)
            for count in pool.map(lambda item: make(*item), missing):
                bar.advance(task, count)
    finally:
        pool.shutdown(cancel_futures=True)


def _rows(pictures: PictureList, span: slice, backbone: Encoder) -> npt.NDArray[np.float32]:
    """Features of the pictures `span`, of which only a few are in memory at a time."""
    rows = np.empty((span.stop - span.start, backbone.n_features), np.float32)
    for start in range(0, len(rows), BATCH):
        numbers = range(span.start + start, min(span.start + start + BATCH, span.stop))
        rows[start : start + BATCH] = backbone([pictures.read(i, backbone.image_size) for i in numbers])
    return rows
