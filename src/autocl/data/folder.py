"""Image sets of one's own: a folder with one folder per class, or arrays."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from autocl.data.archives import Block, Raw, reading
from autocl.data.cache import Arrays, SortedImages
from autocl.data.imageset import ImageSet, content_hash
from autocl.data.loading import check_size
from autocl.data.preprocess import resize
from autocl.errors import DataError, InputError
from autocl.pictures import decode

SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"})


def from_folder(
    path: str | Path, *, size: int = 32, channels: int = 3, name: str | None = None, split: str = "all"
) -> ImageSet:
    """Images in one folder per class: `path/cat/1.jpg`, `path/dog/x.png`, …

    Classes and the files of a class are taken in alphabetical order; files that are no images by their
    suffix are passed over. The statistics are those of the images.

    Args:
        path: the folder of folders.
        size: pixels a side; images are squeezed into a square.
        channels: 1 or 3.
        name: default: the folder's name.
        split: what to call this part of the data.

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
    top = Path(path).expanduser()
    if not top.is_dir():
        raise DataError(f"{top} is not a folder: give a folder that holds one folder of images per class")
    check_size(size, channels)
    files = {
        folder.name: sorted(file for file in folder.iterdir() if file.suffix.lower() in SUFFIXES)
        for folder in sorted(top.iterdir())
        if folder.is_dir() and not folder.name.startswith(".")
    }
    files = {label: found for label, found in files.items() if found}
    if not files:
        raise DataError(f"{top} holds no folder with images in it ({', '.join(sorted(SUFFIXES))})")

    def blocks() -> Iterator[Block]:
        for label, found in enumerate(files.values()):
            for file in found:
                with reading(file, "an image"):
                    pixels = decode(file, channels=channels, at_least=size)
                yield pixels[None], np.array([label], np.int64)

    made = SortedImages(Raw(classes=tuple(files), blocks=blocks()), size=size, channels=channels).arrays()
    return _measured(made, name or top.resolve().name, split)


def from_arrays(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    *,
    classes: Sequence[str] | None = None,
    size: int | None = None,
    name: str = "arrays",
    split: str = "all",
) -> ImageSet:
    """Images and labels that are in memory already.

    Args:
        x: uint8, or floats in [0, 1]; [n, H, W], [n, H, W, C] or [n, C, H, W] with C = 1 or 3.
        y: [n], integers or strings.
        classes: names of the labels in increasing order; default: the labels as text.
        size: pixels a side; default: as given.
        name: of the set.
        split: what to call this part of the data.

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
    if size is not None:
        check_size(size, channels)
        pixels = resize(images, (size, size), channels)
    else:
        pixels = images[:, None] if images.ndim == 3 else images.transpose(0, 3, 1, 2)
    order = np.argsort(numbers, kind="stable").astype(np.int64)
    made = Arrays(
        images=np.ascontiguousarray(pixels[order]),
        starts=np.concatenate([[0], np.cumsum(np.bincount(numbers))]).astype(np.int64),
        order=order,
        classes=tuple(classes) if classes is not None else tuple(str(value) for value in values),
        notes="",
    )
    return _measured(made, name, split)


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


def _measured(made: Arrays, name: str, split: str) -> ImageSet:
    """An image set whose statistics are those of its own pixels."""
    channels = made.images.shape[1]
    # From the histogram: exact, and no float copy of the images.
    counts = np.stack([np.bincount(made.images[:, c].ravel(), minlength=256) for c in range(channels)])
    value = np.arange(256) / 255
    mean = (counts * value).sum(axis=1) / counts.sum(axis=1)
    std = np.sqrt((counts * (value - mean[:, None]) ** 2).sum(axis=1) / counts.sum(axis=1))
    return ImageSet(
        name=name,
        split=split,
        images=made.images,
        starts=made.starts,
        classes=made.classes,
        mean=tuple(float(m) for m in mean),
        # A channel of one value has no deviation to divide by.
        std=tuple(float(s) if s > 0 else 1.0 for s in std),
        hash=content_hash(made.images, made.starts, made.classes),
        order=made.order,
    )
