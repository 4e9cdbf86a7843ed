import numpy as np
import pytest

from autocl.data import load
from autocl.data.imageset import ImageSet
from autocl.data.loading import padded
from autocl.errors import DataError, InputError
from autocl.evaluation.entry import MNIST_PADDED


def tiny(pixels: np.ndarray) -> ImageSet:
    return ImageSet(
        name="tiny", split="train", images=pixels, starts=np.array([0, len(pixels)]), classes=("a",),
        mean=(0.5,), std=(0.5,), hash="before",
    )  # fmt: skip


def test__padded__keeps_the_pixels_in_the_middle_of_black():
    pixels = np.arange(1, 13, dtype=np.uint8).reshape(1, 1, 3, 4)
    wide = padded(tiny(pixels), 6, mean=(0.1,), std=(0.2,))
    assert wide.images.shape == (1, 1, 6, 6)
    assert np.array_equal(wide.images[:, :, 1:4, 1:5], pixels)
    assert wide.images.sum() == pixels.sum()
    assert (wide.mean, wide.std) == ((0.1,), (0.2,))
    assert wide.hash not in ("", "before")


def test__padded__refuses_to_shrink():
    with pytest.raises(InputError, match="cannot be padded to 2×2"):
        padded(tiny(np.zeros((1, 1, 3, 3), np.uint8)), 2, mean=(0.1,), std=(0.2,))


def test__padded__mnist_has_the_published_statistics():
    try:
        train = padded(load("mnist", "train", size=28), 32, **MNIST_PADDED)
    except DataError as error:
        pytest.skip(str(error))
    assert train.images.shape == (60000, 1, 32, 32)
    # By integers, so that the sums are exact.
    pixels = train.images.reshape(-1)
    counts = np.bincount(pixels, minlength=256)
    values = np.arange(256) / 255
    mean = (counts * values).sum() / pixels.size
    std = np.sqrt((counts * values**2).sum() / pixels.size - mean**2)
    assert (round(mean, 4), round(std, 4)) == (*MNIST_PADDED["mean"], *MNIST_PADDED["std"])
