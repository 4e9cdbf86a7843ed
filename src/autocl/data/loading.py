"""`load`: from a name to an image set."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from autocl.config import check_choice
from autocl.data.archives import Raw
from autocl.data.cache import SortedImages, decoded
from autocl.data.catalog import SetInfo, describe
from autocl.data.imageset import ImageSet, content_hash
from autocl.data.locate import check_identity, find
from autocl.data.preprocess import LUMA
from autocl.errors import DataError, InputError

MAX_SIZE = 512


def load(
    name: str,
    split: str = "train",
    *,
    size: int = 32,
    channels: int | None = None,
    root: str | Path | None = None,
    statistics: Literal["default", "paper"] = "default",
    **options: Any,
) -> ImageSet:
    """A named image set, in memory (memory-mapped) as uint8.

    Files are looked for in `root` if given; else in the folder `AUTOCL_DATA`, in `shared/data` beside the
    checkout, and in the cache (`AUTOCL_CACHE`, default `~/.cache/autocl`); else downloaded into the cache.

    Args:
        name: see `autocl data list`.
        split: most sets have "train" and "test"; sets split by class also "val".
        size: pixels a side.
        channels: 1 or 3; default as the set is (gray sets are stored with one channel and repeated by
            `ImageSet.take`).
        root: the folder that holds the data files, or folders of them named after the sets.
        statistics: "paper" normalises as the authors' code does where that differs from the correct values
            (Omniglot).
        **options: what the set offers: omniglot `rotations=True` (each quarter turn a class of its own),
            tiny_imagenet `exclude_mini_imagenet=True`, glyphs `classes=…, examples=…, seed=…`.

    Example:
        >>> digits = load("digits", "test")  # comes with scikit-learn
        >>> digits.n_classes, digits.images.shape
        (10, (359, 1, 32, 32))
        >>> train = load("omniglot", "train", rotations=True)  # doctest: +SKIP
        >>> train.n_classes, train.images.shape  # doctest: +SKIP
        (4112, (82240, 1, 32, 32))
    """
    info = describe(name)
    name = info.name
    if split not in info.splits:
        raise DataError(f"{info.title} has no split {split!r}: it has {', '.join(info.splits)}")
    chosen = _options(info, options)
    channels = info.channels if channels is None else channels
    check_size(size, channels)
    mean, std = _statistics(info, channels, statistics)
    if info.make is not None:
        made = SortedImages(info.make(split, size, chosen), size=(size, size), channels=channels).image_set()
        note = ""
    else:
        layout, paths = find(info, split, root=root)
        stamps = {file: (path.stat().st_size, path.stat().st_mtime_ns) for file, path in paths.items()}
        key = {
            "name": name, "split": split, "size": size, "channels": channels, "options": chosen,
            "files": stamps,
        }  # fmt: skip

        def build() -> Raw:
            check_identity(info, layout, paths)
            return layout.read(paths, split, chosen)

        made = decoded(key, build, size=size, channels=channels)
        note = layout.notes
    notes = "; ".join(text for text in (note, made.notes) if text)
    return replace(made, name=name, split=split, mean=mean, std=std, notes=notes)


def check_size(size: int, channels: int) -> None:
    """Refuse sizes and numbers of channels that images cannot be brought to."""
    if channels not in (1, 3):
        raise InputError(f"channels={channels} is not possible: choose 1 or 3")
    if not 1 <= size <= MAX_SIZE:
        raise InputError(f"size={size} is not possible: choose 1 to {MAX_SIZE} pixels")


def _options(info: SetInfo, given: dict[str, Any]) -> dict[str, Any]:
    """The set's options with defaults filled in, checked by name and type."""
    for option, value in given.items():
        if option not in info.options:
            known = ", ".join(info.options) or "none"
            raise InputError(f"{info.title} has no option {option!r}: it has {known}")
        kind = type(info.options[option])
        if type(value) is not kind:
            raise InputError(f"option {option}={value!r} of {info.title} must be of type {kind.__name__}")
    return {**info.options, **given}


def _statistics(
    info: SetInfo, channels: int, which: Literal["default", "paper"]
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation for the channels asked for."""
    check_choice("statistics", which, ("default", "paper"))
    mean, std = info.mean, info.std
    if which == "paper" and info.paper_mean is not None and info.paper_std is not None:
        mean, std = info.paper_mean, info.paper_std
    if channels == info.channels:
        return mean, std
    if channels == 3:
        return mean * 3, std * 3
    # The mean is exact. The deviation is exact when the channels rise and fall together, as they nearly do
    # in photographs; it must not depend on the split, so it is not measured.
    return (
        (sum(w * m for w, m in zip(LUMA, mean, strict=True)),),
        (sum(w * s for w, s in zip(LUMA, std, strict=True)),),
    )


def padded(images: ImageSet, size: int, *, mean: tuple[float, ...], std: tuple[float, ...]) -> ImageSet:
    """The same images in the middle of a black square.

    Args:
        images: at most `size` pixels a side.
        size: pixels a side of the result.
        mean: statistics of the padded training images, which are not those of the images alone.
        std: likewise.

    Example:
        >>> digits = ImageSet(name="toy", split="train", images=np.full((1, 1, 2, 2), 255, np.uint8),
        ...                   starts=np.array([0, 1]), classes=("a",), mean=(0.5,), std=(0.5,))
        >>> padded(digits, 4, mean=(0.25,), std=(0.43,)).images[0, 0, 1].tolist()
        [0, 255, 255, 0]
    """
    height, width = images.images.shape[2:]
    if height > size or width > size:
        raise InputError(
            f"image set {images.name!r} has {height}×{width} pixels and cannot be padded to {size}×{size}"
        )
    top, left = (size - height) // 2, (size - width) // 2
    frame = ((0, 0), (0, 0), (top, size - height - top), (left, size - width - left))
    pixels = np.pad(images.images, frame)
    digest = content_hash(pixels, images.starts, images.classes)
    return replace(images, images=pixels, mean=mean, std=std, hash=digest)
