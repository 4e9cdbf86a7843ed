"""MNIST as Hsu et al. 2018 feed it to their networks: 28×28 digits in a frame of background, 32×32 in all."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from autocl.data.imageset import ImageSet, content_hash
from autocl.data.loading import load
from autocl.errors import InputError


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


def padded_mnist(root: str | Path | None = None) -> tuple[ImageSet, ImageSet]:
    """Training and test images of MNIST, padded to 32×32 and normalised accordingly."""
    train, test = (
        padded(load("mnist", split, size=28, root=root), 32, mean=(0.1000,), std=(0.2752,))
        for split in ("train", "test")
    )
    return train, test
