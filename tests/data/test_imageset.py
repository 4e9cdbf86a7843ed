"""ImageSet: from rows to network input; MNIST in a frame of background."""

import numpy as np
import pytest
import torch

from autocl.data import load
from autocl.data.imageset import ImageSet, content_hash
from autocl.data.loading import padded
from autocl.errors import DataError, InputError
from autocl.evaluation.entry import MNIST_PADDED

RNG = np.random.default_rng(0)


def _set(channels: int = 1, **changes: object) -> ImageSet:
    fields: dict[str, object] = {
        "name": "toy",
        "split": "train",
        "images": RNG.integers(0, 256, (5, channels, 4, 4), dtype=np.uint8),
        "starts": np.array([0, 2, 5]),
        "classes": ("a", "b"),
        "mean": (0.25,) * channels,
        "std": (0.5,) * channels,
    }
    return ImageSet(**{**fields, **changes})


def test_take_normalises_and_keeps_the_shape_of_the_index() -> None:
    s = _set(3)
    x = s.take(torch.tensor([[4, 0], [1, 1]]))
    assert x.shape == (2, 2, 3, 4, 4)
    expected = (s.images[4] / 255 - 0.25) / 0.5
    np.testing.assert_allclose(x[0, 0].numpy(), expected, atol=1e-6)


def test_gray_is_repeated() -> None:
    x = _set().take(torch.tensor([0]), channels=3)
    assert torch.equal(x[:, 0], x[:, 2])


def test_augmentation_sees_pixels_between_0_and_1_and_is_normalised_after() -> None:
    seen = {}

    def white(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        seen["range"] = (float(x.min()) >= 0, float(x.max()) <= 1)
        return torch.ones_like(x)

    s = _set()
    before = s.images.copy()
    x = s.take(torch.tensor([0, 1]), augment=white, generator=torch.Generator())
    assert seen["range"] == (True, True)
    assert torch.allclose(x, torch.tensor(1.5))
    np.testing.assert_array_equal(s.images, before)


def test_labels_and_counts() -> None:
    s = _set()
    assert s.labels.tolist() == [0, 0, 1, 1, 1]
    assert s.counts.tolist() == [2, 3]


@pytest.mark.parametrize(
    "changes",
    [
        {"images": np.zeros((5, 4, 4), np.uint8)},
        {"images": np.zeros((5, 1, 4, 4), np.float32)},
        {"starts": np.array([0, 5])},
        {"starts": np.array([0, 6, 5])},
        {"mean": (0.1, 0.2)},
        {"order": np.zeros(4, np.int64)},
    ],
)
def test_inconsistent_sets_cannot_be_made(changes: dict[str, object]) -> None:
    with pytest.raises(InputError, match="'toy'"):
        _set(**changes)


def test_impossible_requests() -> None:
    with pytest.raises(InputError, match="3 channels and cannot give 1"):
        _set(3).take(torch.tensor([0]), channels=1)
    with pytest.raises(InputError, match="generator"):
        _set().take(torch.tensor([0]), augment=lambda x, g: x)


def test_hash_depends_on_pixels_classes_and_boundaries() -> None:
    s = _set()
    other = s.images.copy()
    other[0, 0, 0, 0] ^= 1
    hashes = {
        content_hash(s.images, s.starts, s.classes),
        content_hash(other, s.starts, s.classes),
        content_hash(s.images, np.array([0, 3, 5]), s.classes),
        content_hash(s.images, s.starts, ("a", "c")),
    }
    assert len(hashes) == 4


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
