"""Drawn glyphs: pure functions of their numbers, and legible."""

import numpy as np
import pytest

from autocl.data import draw_glyphs, load
from autocl.data.glyphs import normals, uniforms


def test_a_drawing_depends_on_its_numbers_alone() -> None:
    glyphs, drawings = np.array([5, 0, 5, 1000]), np.array([2, 0, 1, 7])
    together = draw_glyphs(glyphs, drawings, seed=3)
    for row, (glyph, drawing) in enumerate(zip(glyphs, drawings, strict=True)):
        np.testing.assert_array_equal(draw_glyphs([glyph], [drawing], seed=3)[0], together[row])
    many = draw_glyphs(np.repeat(np.arange(700), 2), np.tile([0, 1], 700), seed=3)
    np.testing.assert_array_equal(many[0], draw_glyphs([0], [0], seed=3)[0])
    np.testing.assert_array_equal(many[1000], draw_glyphs([500], [0], seed=3)[0])


def test_everything_matters() -> None:
    base = draw_glyphs([1], [1], seed=1)
    assert not np.array_equal(base, draw_glyphs([2], [1], seed=1))
    assert not np.array_equal(base, draw_glyphs([1], [2], seed=1))
    assert not np.array_equal(base, draw_glyphs([1], [1], seed=2))


def test_ink() -> None:
    x = draw_glyphs(np.repeat(np.arange(200), 5), np.tile(np.arange(5), 200))
    assert x.dtype == np.uint8
    share = (x > 127).mean(axis=(1, 2))
    assert share.min() > 0.01, "no drawing is empty"
    assert share.max() < 0.5
    assert 0.06 < share.mean() < 0.16, "between Omniglot (0.08) and MNIST (0.13)"
    gray = ((x > 20) & (x < 200)).mean()
    assert gray > 0.02, "edges are smooth"
    frame = np.concatenate([x[:, 0], x[:, -1], x[:, :, 0], x[:, :, -1]], axis=1)
    assert (frame > 127).mean() < 0.03, "glyphs stay within the picture"


def test_drawings_of_one_glyph_are_alike() -> None:
    """Nearest class mean of five drawings names most others right: classes are real, yet not trivial."""
    x = draw_glyphs(np.repeat(np.arange(20), 15), np.tile(np.arange(15), 20), seed=9) / 255.0
    x = x.reshape(20, 15, -1)
    means = x[:, :5].mean(axis=1)
    queries = x[:, 5:].reshape(200, -1)
    nearest = ((queries[:, None] - means) ** 2).sum(axis=2).argmin(axis=1)
    accuracy = (nearest == np.repeat(np.arange(20), 10)).mean()
    assert 0.4 < accuracy < 0.99


@pytest.mark.parametrize("size", [16, 28, 64])
def test_sizes(size: int) -> None:
    x = draw_glyphs(np.arange(50), np.zeros(50, int), size=size)
    assert x.shape == (50, size, size)
    assert 0.04 < (x > 127).mean() < 0.2


def test_as_image_set() -> None:
    train = load("glyphs", classes=70, examples=3, seed=4)
    assert train.images.shape == (210, 1, 32, 32)
    np.testing.assert_array_equal(train.images[3 * 65 + 1, 0], draw_glyphs([65], [1], seed=4)[0])
    others = [load("glyphs", split, classes=70, examples=3, seed=4) for split in ("val", "test")]
    assert len({name for s in (train, *others) for name in s.classes}) == 210
    assert not np.array_equal(train.images, others[0].images)


def test_statistics_are_those_of_the_default_set() -> None:
    s = load("glyphs", classes=300)
    assert s.images.mean() / 255 == pytest.approx(s.mean[0], abs=0.01)
    assert s.images.std() / 255 == pytest.approx(s.std[0], abs=0.01)


def test_noise_is_uniform_and_normal() -> None:
    u = uniforms((7, np.arange(2000)), 10)
    assert 0 <= u.min() < u.max() < 1
    assert u.mean() == pytest.approx(0.5, abs=0.01)
    assert u.std() == pytest.approx(12**-0.5, abs=0.01)
    assert abs(np.corrcoef(u[:-1, 0], u[1:, 0])[0, 1]) < 0.08, "neighbouring keys are independent"
    g = normals((7, np.arange(2000)), 9)
    assert g.shape == (2000, 9)
    assert g.mean() == pytest.approx(0, abs=0.02)
    assert g.std() == pytest.approx(1, abs=0.02)
