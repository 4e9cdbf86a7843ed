"""Augmentation: within range, each image in its own way, reproducible, and nothing by default."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from autocl.data import Augment, load
from autocl.errors import InputError


def _generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


X = torch.rand(12, 3, 16, 16, generator=_generator())
SETTINGS = {
    "rotate": 20.0,
    "scale": 0.3,
    "shear": 0.3,
    "shift": 0.2,
    "thickness": 0.9,
    "brightness": 0.2,
    "contrast": 0.5,
    "colour": 0.2,
    "flip": 0.5,
}


def test_nothing_by_default() -> None:
    assert torch.equal(Augment()(X, _generator()), X)


@pytest.mark.parametrize("name", SETTINGS)
def test_each_setting_alone(name: str) -> None:
    augment = Augment(**{name: SETTINGS[name]})
    before = X.clone()
    y = augment(X, _generator())
    assert torch.equal(X, before), "the input is left alone"
    assert y.shape == X.shape
    assert y.min() >= 0
    assert y.max() <= 1
    assert not torch.equal(y, X)
    assert torch.equal(y, augment(X, _generator())), "same generator, same images"
    assert not torch.equal(y, augment(X, _generator(1)))
    same = augment(X[:1].expand(12, -1, -1, -1), _generator())
    assert len({tuple(image.flatten().tolist()) for image in same}) > 1, "each image in its own way"


@settings(max_examples=25, deadline=None)
@given(
    values=st.fixed_dictionaries({name: st.floats(0, value) for name, value in SETTINGS.items()}),
    seed=st.integers(0, 99),
)
def test_range(values: dict[str, float], seed: int) -> None:
    y = Augment(**values)(X, _generator(seed))
    assert torch.isfinite(y).all()
    assert y.min() >= -1e-6
    assert y.max() <= 1 + 1e-6


def test_flip_is_exact() -> None:
    assert torch.allclose(Augment(flip=1.0)(X, _generator()), X.flip(3), atol=1e-5)


def test_thickness_keeps_the_middle_of_strokes() -> None:
    line = torch.zeros(50, 1, 16, 16)
    line[:, :, :, 8] = 1
    y = Augment(thickness=1.0)(line, _generator())
    assert y[:, 0, :, 8].min() >= 0.5
    beside = y[:, 0, 8, 7]
    assert beside.max() > 0.5
    assert beside.min() == 0
    assert y[:, 0, :, 5].max() == 0


def test_shift_moves_by_the_stated_part() -> None:
    dot = torch.zeros(200, 1, 32, 32)
    dot[:, :, 16, 16] = 1
    y = Augment(shift=0.125)(dot, _generator())
    where = y.flatten(1).argmax(1) % 32
    assert where.min() == 12
    assert where.max() == 20


def test_on_an_image_set() -> None:
    s = load("glyphs", classes=4, examples=2)
    index = torch.arange(8)
    x = s.take(index, channels=3, augment=Augment(rotate=20), generator=_generator())
    assert x.shape == (8, 3, 32, 32)
    assert not torch.equal(x, s.take(index, channels=3))


@pytest.mark.parametrize(
    ("name", "value"), [("rotate", -1.0), ("flip", 1.5), ("scale", float("nan")), ("thickness", -0.1)]
)
def test_bad_settings(name: str, value: float) -> None:
    with pytest.raises(InputError, match=f"{name} must be .*, got {value}"):
        Augment(**{name: value})
