"""Images of one's own: a folder with one folder per class, files with labels, or arrays.

`from_folder` and `from_arrays` decode everything into an `ImageSet`; a `PictureList` reads one picture at a
time, in its own size, for backbones.

Shape legend: n = pictures, K = classes.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from autocl.data.archives import Block, Raw, reading
from autocl.data.cache import SortedImages, decoded
from autocl.data.imageset import ImageSet
from autocl.data.loading import check_size
from autocl.errors import DataError, InputError
from autocl.pictures import decode, upright

SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"})
WHOLE = "all"
"""Split of one's own images: they come without one."""
WORTH_KEEPING = 1000
"""Pictures in a folder from which on decoding takes seconds."""


def from_folder(path: str | Path, *, size: int = 32, channels: int = 3) -> ImageSet:
    """Images in one folder per class: `path/cat/1.jpg`, `path/dog/x.png`, …

    Classes and the files of a class are taken in alphabetical order; files that are no images by their
    suffix are passed over. The statistics are those of the images. Folders of a thousand pictures and more
    are decoded once: the small pictures are kept in the cache until a file's name, size or date changes.

    Args:
        path: the folder of folders.
        size: pixels a side; images are squeezed into a square.
        channels: 1 or 3.

    Example:
        >>> import tempfile
        >>> from PIL import Image
        >>> with tempfile.TemporaryDirectory() as top:
        ...     for colour in ("red", "blue"):
        ...         Path(top, colour).mkdir()
        ...         Image.new("RGB", (50, 40), colour).save(Path(top, colour, "1.png"))
        ...     from_folder(top).classes
        ('blue', 'red')
    """
    check_size(size, channels)
    top = Path(path).expanduser()
    files = _class_files(top)

    def blocks() -> Iterator[Block]:
        for label, found in enumerate(files.values()):
            for file in found:
                with reading(file, "an image"):
                    pixels = decode(file, channels=channels, at_least=size)
                yield pixels[None], np.array([label], np.int64)

    def build() -> Raw:
        return Raw(classes=tuple(files), blocks=blocks())

    if sum(map(len, files.values())) < WORTH_KEEPING:
        made = SortedImages(build(), size=(size, size), channels=channels).image_set()
    else:
        key = {"name": "folder", "path": str(top.resolve()), "size": size, "channels": channels}
        made = decoded(key, build, size=size, channels=channels, edition=_listing(files))
    return _measured(made, top.resolve().name)


def _listing(files: Mapping[str, Sequence[Path]]) -> str:
    """A digest that changes when a picture is added, removed, renamed or written anew."""
    digest = sha256()
    for label, found in files.items():
        for file in found:
            about = file.stat()
            digest.update(f"{label!r} {file.name!r} {about.st_size} {about.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def from_arrays(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    *,
    classes: Sequence[str] | None = None,
    size: int | None = None,
    name: str = "arrays",
) -> ImageSet:
    """Images and labels that are in memory already.

    Args:
        x: uint8, or floats in [0, 1]; [n, H, W], [n, H, W, C] or [n, C, H, W] with C = 1 or 3.
        y: [n], integers or strings.
        classes: names of the labels in increasing order; default: the labels as text.
        size: pixels a side; default: as given.
        name: of the set.

    Example:
        >>> s = from_arrays(np.zeros((4, 8, 8), np.uint8), [7, 3, 7, 3])
        >>> s.classes, s.order.tolist()
        (('3', '7'), [1, 3, 0, 2])
    """
    images, labels = _as_images(np.asarray(x)), np.asarray(y)
    if labels.shape != (len(images),) or labels.dtype.kind not in "iuSU":
        raise InputError(
            f"y must be one integer or string for each of the {len(images)} images, "
            f"got {labels.dtype} {list(labels.shape)}"
        )
    values, numbers = np.unique(labels, return_inverse=True)
    if classes is not None and len(classes) != len(values):
        raise InputError(f"classes has {len(classes)} names, but y has {len(values)} different labels")
    channels = 1 if images.ndim == 3 else 3
    height, width = images.shape[1:3]
    if size is not None:
        check_size(size, channels)
        height = width = size
    raw = Raw(classes=tuple(map(str, values if classes is None else classes)), blocks=[(images, numbers)])
    return _measured(SortedImages(raw, size=(height, width), channels=channels).image_set(), name)


def _class_files(top: Path) -> dict[str, list[Path]]:
    """The image files of each folder in `top` that holds any, both in alphabetical order."""
    if not top.is_dir():
        raise DataError(f"{top} is not a folder: give a folder that holds one folder of images per class")
    folders = (f for f in sorted(top.iterdir()) if f.is_dir() and not f.name.startswith("."))
    found = {f.name: sorted(x for x in f.iterdir() if x.suffix.lower() in SUFFIXES) for f in folders}
    found = {label: files for label, files in found.items() if files}
    if not found:
        raise DataError(f"{top} holds no folder with images in it ({', '.join(sorted(SUFFIXES))})")
    return found


def _as_images(x: npt.NDArray[np.generic]) -> npt.NDArray[np.uint8]:
    """[n, H, W] or [n, H, W, 3], uint8."""
    if x.ndim not in (3, 4) or 0 in x.shape:
        raise InputError(f"x must be [n, H, W], [n, H, W, C] or [n, C, H, W], not empty; got {list(x.shape)}")
    if x.ndim == 4:
        last, first = x.shape[3] in (1, 3), x.shape[1] in (1, 3)
        if last == first:
            why = "both its second and last axis could be" if last else "neither its second nor last axis is"
            raise InputError(f"x of shape {list(x.shape)}: {why} the 1 or 3 channels")
        x = x if last else x.transpose(0, 2, 3, 1)
        x = x[..., 0] if x.shape[3] == 1 else x
    if x.dtype == np.uint8:
        return x.astype(np.uint8, copy=False)
    if x.dtype.kind != "f":
        raise InputError(f"x must be uint8 or floats in [0, 1], got {x.dtype}")
    values = x.astype(np.float64)
    if not (values.min() >= 0 and values.max() <= 1):  # also false for NaN
        raise InputError(f"x must lie in [0, 1] as floats, got {values.min():g} to {values.max():g}")
    return np.rint(values * 255).astype(np.uint8)


def _measured(made: ImageSet, name: str) -> ImageSet:
    """An image set whose statistics are those of its own pixels."""
    channels = made.images.shape[1]
    # From the histogram: exact, and no float copy of the images.
    counts = np.stack([np.bincount(made.images[:, c].ravel(), minlength=256) for c in range(channels)])
    value = np.arange(256) / 255
    mean = (counts * value).sum(axis=1) / counts.sum(axis=1)
    std = np.sqrt((counts * (value - mean[:, None]) ** 2).sum(axis=1) / counts.sum(axis=1))
    # A channel of one value has no deviation to divide by.
    std = np.where(std > 0, std, 1.0)
    return replace(made, name=name, split=WHOLE, mean=tuple(mean.tolist()), std=tuple(std.tolist()))


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


def list_folder(path: str | Path) -> PictureList:
    """The pictures in one folder per class: `path/cat/1.jpg`, `path/dog/x.png`, …, in alphabetical order."""
    top = Path(path).expanduser()
    found = [(file, label) for label, files in _class_files(top).items() for file in files]
    files, labels = zip(*found, strict=True)
    return list_files(files, labels, name=top.resolve().name)


def list_files(files: Sequence[str | Path], labels: Sequence[str], *, name: str = "files") -> PictureList:
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
            return upright(paths[i], channels=3, at_least=at_least)

    return PictureList(
        name=name, split=WHOLE, classes=classes, starts=starts, order=order, hash=digest.hexdigest(),
        notes="", read=read,
    )  # fmt: skip
