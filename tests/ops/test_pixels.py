"""Resizing against Pillow: the same bytes, at every size and shape."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from PIL import Image

from autocl.ops.pixels import GAP, cubic, look_up, resize, resize_small, taps

BICUBIC = Image.Resampling.BICUBIC


def noise(width: int, height: int, seed: int) -> Image.Image:
    """Black, white and gray dots, which overshoot at every edge."""
    rng = np.random.default_rng(seed)
    return Image.fromarray(rng.choice(np.array([0, 128, 255], np.uint8), (height, width, 3)))


def rows_first(image: Image.Image, side: int) -> np.ndarray:
    """By Pillow, in the order of all its versions before 13."""
    factors = tuple(int(length / side / GAP) or 1 for length in image.size)
    box = (0, 0, image.size[0] / factors[0], image.size[1] / factors[1])
    image = image.reduce(factors)
    image = image.resize((side, image.size[1]), BICUBIC, box=(0, 0, box[2], image.size[1]))
    return np.asarray(image.resize((side, side), BICUBIC, box=(0, 0, side, box[3])))


@given(
    width=st.integers(1, 400),
    height=st.integers(1, 400),
    side=st.sampled_from([1, 7, 32, 64]),
    seed=st.integers(0, 99),
)
@settings(deadline=None, max_examples=60)
def test_same_bytes_as_pillow(width: int, height: int, side: int, seed: int) -> None:
    image = noise(width, height, seed)
    assert np.array_equal(resize(image, side), rows_first(image, side))


@pytest.mark.parametrize("size", [(640, 480), (32, 32), (500, 500), (300, 200)])
def test_same_bytes_as_one_call_of_pillow(size: tuple[int, int]) -> None:
    """For wide and square pictures in every version."""
    image = noise(*size, 0)
    expected = np.asarray(image.resize((224, 224), BICUBIC, reducing_gap=GAP))
    assert np.array_equal(resize(image, 224), expected)


@given(
    width=st.integers(1, 64),
    height=st.integers(1, 64),
    channels=st.sampled_from([None, 3]),
    seed=st.integers(0, 99),
)
@settings(deadline=None, max_examples=60)
def test_small_images_have_the_bytes_of_pillow(
    width: int, height: int, channels: int | None, seed: int
) -> None:
    assume(height * 32 <= width * 24)  # others Pillow does in another order, from version 13 on
    shape = (2, height, width) if channels is None else (2, height, width, channels)
    images = np.random.default_rng(seed).choice(np.array([0, 100, 128, 255], np.uint8), shape)
    bilinear = [np.asarray(Image.fromarray(i).resize((32, 24), Image.Resampling.BILINEAR)) for i in images]
    assert np.array_equal(resize_small(images, 24, 32), np.stack(bilinear))


def test_weights_are_of_a_mean() -> None:
    first, weight = taps(640, 640.0, 224)
    assert first.shape == (224,)
    assert (first >= 0).all()
    assert (first + (weight != 0).sum(1) <= 640).all()
    assert np.abs(weight.sum(1) / 2**22 - 1).max() < 1e-5


def test_kernel() -> None:
    assert cubic(np.array([0.0, 1.0, -1.0, 2.0, 3.0])).tolist() == [1, 0, 0, 0, 0]
    assert cubic(np.array([0.5, -1.5])).tolist() == [0.5625, -0.0625]


def test_bytes_are_looked_up_as_they_would_be_computed() -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (2, 35, 3), np.uint8)
    mean, std = (rng.random((3, 1)).astype(np.float32) * 100 + 50 for _ in range(2))
    out = np.empty((2, 3, 35), np.float32)
    look_up(x, (np.arange(256, dtype=np.float32) - mean) / std, out)
    computed = x.transpose(0, 2, 1).astype(np.float32)
    computed -= mean
    computed /= std
    assert np.array_equal(out, computed)
