"""Decoded sets on disk: sorted by class, memory-mapped, verified on every load, rebuilt when damaged.

One folder per decoded split: `images.npy` and `meta.json`. A folder appears by one rename, so it is either
whole or absent; what it holds is believed only after its SHA-256 has been computed anew (0.1 s per 120 MB).

Shape legend: n = images, C = channels, H, W = pixels, K = classes.
"""

import json
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from filelock import FileLock

from autocl.data.archives import Raw
from autocl.data.imageset import ImageSet, content_hash, start_hash
from autocl.data.preprocess import resize
from autocl.errors import DataError

VERSION = 2
"""Raise it when a reader or the resizing changes what is decoded: older folders are then not looked at."""
_CHUNK = 1 << 17
"""Bytes of images that are sorted and written together, about."""

log = logging.getLogger(__name__)


def cache_folder() -> Path:
    """`AUTOCL_CACHE`, or `~/.cache/autocl`."""
    override = os.environ.get("AUTOCL_CACHE")
    return Path(override).expanduser() if override else Path.home() / ".cache" / "autocl"


def _bare(images: npt.NDArray[np.uint8], **facts: Any) -> ImageSet:
    """An image set that has neither name nor statistics yet."""
    channels = images.shape[1]
    return ImageSet(name="", split="", images=images, mean=(0.0,) * channels, std=(1.0,) * channels, **facts)


class SortedImages:
    """Resized images in file order, ready to be handed out sorted by class.

    Held once; the sorted images are given in chunks, so that a consumer who writes them to a file never
    holds them a second time.
    """

    def __init__(self, raw: Raw, *, size: tuple[int, int], channels: int) -> None:
        self._blocks, parts = [], []
        for images, part in raw.blocks:
            self._blocks.append(resize(images, size, channels))
            parts.append(part)
        labels = np.concatenate(parts) if parts else np.zeros(0, np.int64)
        counts = np.bincount(labels, minlength=len(raw.classes))
        if len(labels) == 0 or counts.min() == 0:
            empty = repr(raw.classes[int(counts.argmin())]) if raw.classes else "any name"
            raise DataError(f"no image of a class {empty} was found: the data is incomplete, get it again")
        self._starts = np.cumsum([0, *(len(block) for block in self._blocks)])
        self.shape = (len(labels), channels, *size)
        self.classes, self.notes = raw.classes, raw.notes
        self.starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])
        self.order = np.argsort(labels, kind="stable").astype(np.int64)

    def chunks(self) -> Iterator[npt.NDArray[np.uint8]]:
        """The images sorted by class, in file order within a class: [m, C, H, W]."""
        rows = max(1, _CHUNK // int(np.prod(self.shape[1:])))
        for at in range(0, len(self.order), rows):
            wanted = self.order[at : at + rows]
            block = np.searchsorted(self._starts, wanted, side="right") - 1
            chunk = np.empty((len(wanted), *self.shape[1:]), np.uint8)
            for number in np.unique(block):
                here = block == number
                chunk[here] = self._blocks[number][wanted[here] - self._starts[number]]
            yield chunk

    def image_set(self) -> ImageSet:
        """Everything in memory, without name and statistics."""
        images = np.concatenate(list(self.chunks()))
        digest = content_hash(images, self.starts, self.classes)
        return _bare(
            images, starts=self.starts, order=self.order, classes=self.classes, notes=self.notes, hash=digest
        )


def decoded(
    key: Mapping[str, Any], build: Callable[[], Raw], *, size: int, channels: int, edition: str = ""
) -> ImageSet:
    """The image set for `key`, from the cache or else built and cached.

    Args:
        key: everything the pixels depend on, as JSON values; `key["name"]` names the folder.
        build: opens the source files; called only when the cache has nothing sound.
        size: pixels a side.
        channels: 1 or 3.
        edition: what else they depend on; another one takes the place of the one before.

    Returns:
        It lacks name and statistics; its images are memory-mapped read-only.
    """
    text = json.dumps({"version": VERSION, **key}, sort_keys=True)
    home = cache_folder() / "decoded"
    folder = home / f"{key['name']}-{sha256(text.encode()).hexdigest()[:16]}"
    text += edition
    if (found := _read(folder, text)) is not None:
        return found
    try:
        home.mkdir(parents=True, exist_ok=True)
        with FileLock(home / f"{folder.name}.lock"):
            found = _read(folder, text)  # another process may have made it while this one waited
            if found is None:
                _write(folder, text, SortedImages(build(), size=(size, size), channels=channels))
                found = _read(folder, text)
    except OSError as error:
        log.warning("%s cannot be written (%s): %s is decoded again on every load", home, error, key["name"])
    return found or SortedImages(build(), size=(size, size), channels=channels).image_set()


def _read(folder: Path, key: str) -> ImageSet | None:
    """The folder's content if it is whole and unchanged since it was written."""
    try:
        meta = json.loads((folder / "meta.json").read_text())
        if meta["key"] != key:  # of another edition
            return None
        images = np.load(folder / "images.npy", mmap_mode="r", allow_pickle=False).view(np.ndarray)
        starts, order = (np.array(meta[name], np.int64) for name in ("starts", "order"))
        classes, notes = tuple(meta["classes"]), meta["notes"]
        made = _bare(images, starts=starts, order=order, classes=classes, notes=notes, hash=meta["hash"])
        digests = content_hash(images, starts, classes), _rest_hash(order, notes)
        if digests == (made.hash, meta["rest_hash"]):
            return made
        log.warning("cache folder %s does not match its check sum: making it again", folder)
    except FileNotFoundError:
        pass
    except Exception as error:  # damaged bytes make json and numpy raise almost anything
        log.warning("cache folder %s is damaged (%s): making it again", folder, error)
    return None


def _rest_hash(order: npt.NDArray[np.int64], notes: str) -> str:
    """SHA-256 of what the content hash leaves out."""
    return sha256(order.tobytes() + notes.encode()).hexdigest()


def _write(folder: Path, key: str, made: SortedImages) -> None:
    """Build beside the final place, then rename: a reader sees all of it or nothing."""
    draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=folder.parent))
    try:
        digest = start_hash(made.shape, made.starts, made.classes)
        with (draft / "images.npy").open("wb") as file:
            header = {"descr": "|u1", "fortran_order": False, "shape": made.shape}
            np.lib.format.write_array_header_1_0(file, header)
            for chunk in made.chunks():
                digest.update(chunk.data)
                file.write(chunk.data)
            file.flush()
            os.fsync(file.fileno())
        meta = {
            "key": key,
            "hash": digest.hexdigest(),
            "rest_hash": _rest_hash(made.order, made.notes),
            "classes": made.classes,
            "starts": made.starts.tolist(),
            "order": made.order.tolist(),
            "notes": made.notes,
        }
        with (draft / "meta.json").open("w") as text:
            json.dump(meta, text)
            text.flush()
            os.fsync(text.fileno())
        if folder.exists():
            shutil.rmtree(folder)
        draft.rename(folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
