"""Decoded sets on disk: memory-mapped pixels, verified on every load, rebuilt when damaged.

One folder per decoded split: `images.npy` and `meta.json`. A folder appears by one rename, so it is either
whole or absent; what it holds is believed only after its SHA-256 has been computed anew (0.1 s per 120 MB).
"""

import json
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from autocl.data.assemble import Arrays, Collected
from autocl.data.imageset import content_hash, start_hash
from autocl.data.lock import locked
from autocl.data.readers.block import Raw

VERSION = 1
"""Raise it when a reader or the resizing changes what is decoded: older folders are then not looked at."""

log = logging.getLogger(__name__)


def cache_folder() -> Path:
    """`AUTOCL_CACHE`, or `~/.cache/autocl`."""
    override = os.environ.get("AUTOCL_CACHE")
    return Path(override).expanduser() if override else Path.home() / ".cache" / "autocl"


def decoded(
    key: Mapping[str, Any], build: Callable[[], Raw], *, size: int, channels: int
) -> tuple[Arrays, str]:
    """The arrays for `key`, from the cache or else built and cached.

    Args:
        key: everything the pixels depend on, as JSON values; `key["name"]` names the folder.
        build: opens the source files; called only when the cache has nothing sound.
        size: pixels a side.
        channels: 1 or 3.

    Returns:
        The arrays (images memory-mapped read-only), and their content hash.
    """
    text = json.dumps({"version": VERSION, **key}, sort_keys=True)
    home = cache_folder() / "decoded"
    folder = home / f"{key['name']}-{sha256(text.encode()).hexdigest()[:16]}"
    found = _read(folder, text)
    if found is not None:
        return found
    try:
        home.mkdir(parents=True, exist_ok=True)
        writable = os.access(home, os.W_OK)
    except OSError:
        writable = False
    if not writable:
        log.warning("%s cannot be written: %s is decoded again on every load", home, key["name"])
        made = Collected(build(), size=size, channels=channels).arrays()
        return made, content_hash(made.images, made.starts, made.classes)
    with locked(home / f"{folder.name}.lock"):
        found = _read(folder, text)  # another process may have made it while this one waited
        if found is None:
            _write(folder, text, build(), size=size, channels=channels)
            found = _read(folder, text)
    if found is None:
        raise OSError(f"{folder} cannot be read back after writing it: the disk is failing")
    return found


def _read(folder: Path, key: str) -> tuple[Arrays, str] | None:
    """The folder's content if it is whole and unchanged since it was written."""
    try:
        meta = json.loads((folder / "meta.json").read_text())
        images = np.load(folder / "images.npy", mmap_mode="r", allow_pickle=False).view(np.ndarray)
        starts, order = np.array(meta["starts"], np.int64), np.array(meta["order"], np.int64)
        classes = tuple(meta["classes"])
        sound = (
            meta["key"] == key
            and meta["hash"] == content_hash(images, starts, classes)
            and meta["order_hash"] == sha256(order.tobytes()).hexdigest()
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, EOFError) as error:
        log.warning("cache folder %s is damaged (%s): making it again", folder, error)
        return None
    if not sound:
        log.warning("cache folder %s does not match its check sum: making it again", folder)
        return None
    made = Arrays(images=images, starts=starts, order=order, classes=classes, notes=meta["notes"])
    return made, meta["hash"]


def _write(folder: Path, key: str, raw: Raw, *, size: int, channels: int) -> None:
    """Build beside the final place, then rename: a reader sees all of it or nothing."""
    draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=folder.parent))
    try:
        made = Collected(raw, size=size, channels=channels)
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
            "order_hash": sha256(made.order.tobytes()).hexdigest(),
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
