"""PictureList: labelled pictures that can be read one by one, whatever they lie in.

Shape legend: n = pictures, K = classes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from autocl.data.archives import reading
from autocl.data.folder import SUFFIXES
from autocl.data.imageset import ImageSet
from autocl.errors import DataError, InputError
from autocl.pictures import decode


@dataclass(frozen=True, kw_only=True)
class PictureList:
    """n pictures sorted by class, not yet decoded."""

    name: str
    split: str
    classes: tuple[str, ...]
    starts: npt.NDArray[np.int64]
    """[K + 1]; the pictures of class c are starts[c]:starts[c+1]."""
    order: npt.NDArray[np.int64] | None
    """[n]: position of each picture in what it was made from."""
    hash: str
    """SHA-256 over the content, the classes and their order."""
    notes: str
    read: Callable[[int, int], Image.Image]
    """(number of the picture, pixels a side that are needed) -> the picture."""

    def __len__(self) -> int:
        return int(self.starts[-1])


def list_set(images: ImageSet) -> PictureList:
    """The pictures of an image set."""

    def read(i: int, at_least: int) -> Image.Image:
        pixels = np.ascontiguousarray(images.images[i].transpose(1, 2, 0))
        return Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)

    return PictureList(
        name=images.name, split=images.split, classes=images.classes, starts=images.starts,
        order=images.order, hash=images.hash, notes=images.notes, read=read,
    )  # fmt: skip


def list_folder(path: str | Path, *, split: str = "all") -> PictureList:
    """The pictures in one folder per class: `path/cat/1.jpg`, `path/dog/x.png`, …, in alphabetical order."""
    top = Path(path).expanduser()
    if not top.is_dir():
        raise DataError(f"{top} is not a folder: give a folder that holds one folder of images per class")
    found = [
        (file, folder.name)
        for folder in sorted(top.iterdir())
        if folder.is_dir() and not folder.name.startswith(".")
        for file in sorted(folder.iterdir())
        if file.suffix.lower() in SUFFIXES
    ]
    if not found:
        raise DataError(f"{top} holds no folder with images in it ({', '.join(sorted(SUFFIXES))})")
    files, labels = zip(*found, strict=True)
    return list_files(files, labels, name=top.resolve().name, split=split)


def list_files(
    files: Sequence[str | Path], labels: Sequence[str], *, name: str = "files", split: str = "all"
) -> PictureList:
    """Picture files, each with the name of its class."""
    if len(files) != len(labels) or not files:
        raise InputError(f"{len(files)} files and {len(labels)} labels: give one label for each file")
    names, numbers = np.unique(np.asarray(labels, dtype=str), return_inverse=True)
    order = np.argsort(numbers, kind="stable").astype(np.int64)
    paths = [Path(files[i]).expanduser() for i in order]
    classes = tuple(str(label) for label in names)
    starts = np.concatenate([[0], np.cumsum(np.bincount(numbers))]).astype(np.int64)
    digest = sha256(repr((classes, starts.tolist())).encode())
    for path in paths:
        with reading(path, "an image"):
            digest.update(sha256(path.read_bytes()).digest())

    def read(i: int, at_least: int) -> Image.Image:
        with reading(paths[i], "an image"):
            return Image.fromarray(decode(paths[i], channels=3, at_least=at_least))

    return PictureList(
        name=name, split=split, classes=classes, starts=starts, order=order, hash=digest.hexdigest(),
        notes="", read=read,
    )  # fmt: skip
