"""Image sets: the real files, where this machine has them, and every form read back from a small archive."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from miniature_archives import MINIATURES, Miniature

from autocl.data import ImageSet, load
from autocl.data.catalog import CATALOG, describe
from autocl.data.locate import locate, search_folders, verdict
from autocl.data.sets.cifar import FC100_SPLIT, SUPER_CLASSES
from autocl.data.sets.omniglot import VALIDATION_ALPHABETS
from autocl.data.sets.tiny_imagenet import SHARED_CLASSES

# Classes, images, and the start of the hash, which pins every pixel after decoding and resizing to 32×32:
# it changes with Pillow's resampling or JPEG decoder and with nothing else.
EXPECTED = {
    ("omniglot", "train"): (1028, 20560, "ec6dcd67d45d3a63"),
    ("omniglot", "val"): (172, 3440, "3aad97a115f7a194"),
    ("omniglot", "test"): (423, 8460, "52d4998e4f212dc0"),
    ("mnist", "train"): (10, 60000, "bde69e4274ce06bf"),
    ("mnist", "test"): (10, 10000, "e6beda0d07a36b31"),
    ("fashion_mnist", "train"): (10, 60000, "dc489a67b3fbe121"),
    ("fashion_mnist", "test"): (10, 10000, "0828258eaae342d3"),
    ("cifar10", "train"): (10, 20000, "47c97a33124d5afd"),
    ("cifar10", "test"): (10, 10000, "6ad86454210c42ec"),
    ("mini_imagenet", "train"): (64, 38400, "2f41bfa2ff9ba4b9"),
    ("mini_imagenet", "val"): (16, 9600, "a20ab6b02f9df3df"),
    ("mini_imagenet", "test"): (20, 12000, "22ab6199a6d53bbb"),
    ("tiny_imagenet", "train"): (200, 100000, ""),
    ("tiny_imagenet", "val"): (200, 10000, ""),
    ("notmnist", "train"): (10, 8000, "9c4a4bb24e79f619"),
    ("notmnist", "test"): (10, 2000, "3fd6c7c702c03f02"),
    ("svhn", "train"): (10, 867, "329ad7c767504183"),
    ("svhn", "test"): (10, 216, "d8f5d7754ca09841"),
    ("cifar100", "train"): (100, 50000, "058d031ab5c91595"),
    ("cifar100", "test"): (100, 10000, "db350b9ef53a92d7"),
    ("fc100", "train"): (60, 36000, "854a76a2a2c5f141"),
    ("fc100", "val"): (20, 12000, "4b900b0ac58bbc9c"),
    ("fc100", "test"): (20, 12000, "e5d229eec362b089"),
}
PACKED = {
    "cifar10": "packed strips",
    "mini_imagenet": "packed 32×32 strips",
    "tiny_imagenet": "packed 32×32 tar",
    "notmnist": "sample as idx files",
    "svhn": "part as npz",
    "cifar100": "packed strips",
    "fc100": "CIFAR-100's packed strips",
}
"""The layouts the numbers above belong to, where these are not the official ones."""
LONG = {("omniglot", "train"), ("tiny_imagenet", "train"), ("tiny_imagenet", "val")}
"""More than ten seconds when they are decoded for the first time."""


def _real(name: str, split: str, **options: Any) -> ImageSet:
    """The set, or a skip that says what is missing."""
    info = describe(name)
    found = locate(info, split)
    if found is None:
        pytest.skip(f"{info.title} is not on this machine")
    layout, paths = found
    if layout.title != PACKED.get(name, layout.title):
        pytest.skip(f"{info.title} is here as {layout.title}, the numbers are those of {PACKED[name]}")
    if any(verdict(file, paths[file.name]) == "unknown" for file in layout.files_for(split)):
        pytest.skip(f"this copy of {info.title} is not one whose content is known")
    return load(name, split, **options)


@pytest.mark.parametrize(
    ("name", "split"),
    [pytest.param(*key, marks=[pytest.mark.slow] if key in LONG else []) for key in EXPECTED],
)
def test_content(name: str, split: str) -> None:
    read = _real(name, split)
    classes, count, content = EXPECTED[name, split]
    assert (read.n_classes, len(read.images)) == (classes, count)
    assert read.hash.startswith(content)
    assert read.images.shape[1:] == (describe(name).channels, 32, 32)


@pytest.mark.parametrize(
    ("name", "tolerance"),
    # SPEC §4's values for Fashion-MNIST are of 28×28 images: resizing to 32 smooths. Those of mini-ImageNet
    # are ImageNet's at full size.
    [
        ("mnist", 0.03),
        ("fashion_mnist", 0.02),
        ("cifar10", 0.005),
        ("cifar100", 0.005),
        ("mini_imagenet", 0.05),
        ("notmnist", 0.005),
    ],
)
def test_statistics(name: str, tolerance: float) -> None:
    read = _real(name, "train")
    scaled = read.images[::5] / 255
    np.testing.assert_allclose(scaled.mean(axis=(0, 2, 3)), read.mean, atol=tolerance)
    np.testing.assert_allclose(scaled.std(axis=(0, 2, 3)), read.std, atol=tolerance)


@pytest.mark.slow
def test_omniglot_statistics_are_exact() -> None:
    read = _real("omniglot", "train")
    assert read.images.mean() / 255 == pytest.approx(read.mean[0], abs=5e-5)
    assert (read.images / 255).std() == pytest.approx(read.std[0], abs=5e-5)


def test_omniglot_split() -> None:
    val, test = _real("omniglot", "val"), _real("omniglot", "test")
    assert {name.split("/")[0] for name in val.classes} == VALIDATION_ALPHABETS
    gurmukhi = [name for name in test.classes if name.startswith("Gurmukhi")]
    assert gurmukhi == [f"Gurmukhi/character{number}" for number in (42, 43, 44, 45)]
    assert set(test.counts) == set(val.counts) == {20}


@pytest.mark.slow
def test_omniglot_rotations() -> None:
    plain, turned = _real("omniglot", "train"), _real("omniglot", "train", rotations=True)
    assert turned.n_classes == 4112
    np.testing.assert_array_equal(turned.images[:20], plain.images[:20])
    # Turned before it was resized: the same up to rounding.
    difference = turned.images[20:40].astype(int) - np.rot90(plain.images[:20], axes=(2, 3))
    assert abs(difference).max() <= 1


@pytest.mark.slow
def test_no_class_of_mini_imagenet_is_left_in_tiny_imagenet() -> None:
    tiny = _real("tiny_imagenet", "train", exclude_mini_imagenet=True)
    mini = {name for split in ("train", "val", "test") for name in _real("mini_imagenet", split).classes}
    assert tiny.n_classes == 175
    assert not mini & set(tiny.classes)
    assert set(_real("tiny_imagenet", "train").classes) & mini == SHARED_CLASSES


@pytest.mark.parametrize("name", ["omniglot", "mini_imagenet", "fc100"])
def test_held_out_classes_are_apart(name: str) -> None:
    names = [set(_real(name, split).classes) for split in ("val", "test")]
    assert not names[0] & names[1]


def test_first_digits_of_mnist_in_file_order() -> None:
    """The training file starts 5 0 4 1 9 2 1 3 1 4, as everyone who has looked at MNIST knows."""
    read = _real("mnist", "train")
    assert read.order is not None
    first = read.labels[np.argsort(read.order)][:10]
    assert first.tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]


def test_parts_say_that_they_are_parts() -> None:
    assert "20,000" in _real("cifar10", "train").notes
    assert "1,083" in _real("svhn", "train").notes
    assert "JPEG" in _real("cifar100", "train").notes


def test_fc100_is_all_of_cifar100_split_by_super_class() -> None:
    """600 images of each class: the 500 for training, then the 100 for testing."""
    whole = {part: _real("cifar100", part) for part in ("train", "test")}
    splits = {split: _real("fc100", split) for split in ("train", "val", "test")}
    assert sorted(name for s in splits.values() for name in s.classes) == list(whole["train"].classes)
    for split in splits.values():
        assert set(split.counts) == {600}
        for label, name in enumerate(split.classes):
            parts = [s.images[s.labels == s.classes.index(name)] for s in whole.values()]
            of_class = split.images[split.starts[label] : split.starts[label + 1]]
            np.testing.assert_array_equal(of_class, np.concatenate(parts))


def test_packed_cifar100_agrees_with_lossless_part() -> None:
    """Every lossless image of the npz has a JPEG of its class within 40 dB; so labels are right as well."""
    folder = next((f for f in search_folders() if (f / "cifar100_subset").is_dir()), None)
    if folder is None:
        pytest.skip("the lossless part of CIFAR-100 is not on this machine")
    packed = _real("cifar100", "test")
    with np.load(folder / "cifar100_subset" / "cifar100_subset.npz") as part:
        asked = ~part["official_train"].astype(bool)
        exact, labels = part["x"][asked].transpose(0, 3, 1, 2), part["fine"][asked]
    for label in range(0, 100, 9):
        ours, theirs = packed.images[packed.labels == label].astype(int), exact[labels == label].astype(int)
        errors = ((theirs[:, None] - ours[None]) ** 2).mean(axis=(2, 3, 4))
        assert len(theirs)
        assert errors.min(axis=1).max() < 15


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOCL_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


@pytest.mark.parametrize("mini", MINIATURES, ids=lambda mini: mini.id)
def test_miniature_content(mini: Miniature, folder: Path) -> None:
    mini.write(folder)
    for split, (classes, count) in mini.splits.items():
        read = load(mini.name, split, root=folder, size=mini.size)
        channels = CATALOG[mini.name].channels
        assert read.images.shape == (count, channels, mini.size, mini.size)
        assert read.n_classes == classes
        assert len(set(read.classes)) == classes
        if split in mini.pixels:
            np.testing.assert_array_equal(read.images, mini.pixels[split])
        again = load(mini.name, split, root=folder, size=mini.size)
        assert again.hash == read.hash
        np.testing.assert_array_equal(again.images, read.images)
        for c in range(classes):
            rows = read.order[read.starts[c] : read.starts[c + 1]]
            assert (np.diff(rows) > 0).all()
    assert sorted(mini.splits) == sorted(CATALOG[mini.name].splits)


@pytest.mark.parametrize("mini", [m for m in MINIATURES if len(m.splits) == 3], ids=lambda mini: mini.id)
def test_splits_share_no_class(mini: Miniature, folder: Path) -> None:
    mini.write(folder)
    names = [name for split in mini.splits for name in load(mini.name, split, root=folder).classes]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("form", ["fc100 binary", "fc100 strips"])
def test_fc100_splits_by_super_class(form: str, folder: Path) -> None:
    next(m for m in MINIATURES if m.id == form).write(folder)
    read = load("fc100", "test", root=folder)
    whole = {part: load("cifar100", part, root=folder) for part in ("train", "test")}
    fine = {name for coarse in FC100_SPLIT["test"] for name in SUPER_CLASSES[coarse].split()}
    assert set(read.classes) == fine
    for label, name in enumerate(read.classes):
        of_class = read.images[read.starts[label] : read.starts[label + 1]]
        parts = [s.images[s.labels == s.classes.index(name)] for s in whole.values()]
        np.testing.assert_array_equal(of_class, np.concatenate(parts))


def test_rotations_are_new_classes(folder: Path) -> None:
    next(m for m in MINIATURES if m.name == "omniglot").write(folder)
    plain = load("omniglot", "train", root=folder, size=105)
    turned = load("omniglot", "train", root=folder, size=105, rotations=True)
    assert turned.n_classes == 4 * plain.n_classes
    first = plain.classes[0]
    assert turned.classes[:3] == (first, first + "/rot090", first + "/rot180")
    np.testing.assert_array_equal(turned.images[:3], plain.images[:3])
    np.testing.assert_array_equal(turned.images[3:6], np.rot90(plain.images[:3], axes=(2, 3)))


def test_shared_classes_can_be_left_out(folder: Path) -> None:
    next(m for m in MINIATURES if m.name == "tiny_imagenet").write(folder)
    kept = load("tiny_imagenet", "train", root=folder, exclude_mini_imagenet=True)
    assert kept.classes == ("n01443537", "n02124075")
    assert load("tiny_imagenet", "val", root=folder, exclude_mini_imagenet=True).counts.tolist() == [1, 1]


def test_channels_and_statistics(folder: Path) -> None:
    next(m for m in MINIATURES if m.name == "omniglot").write(folder)
    assert load("omniglot", root=folder).mean == (0.0782,)
    assert load("omniglot", root=folder, statistics="paper").mean == (0.922,)
    rgb = load("omniglot", root=folder, channels=3)
    assert rgb.images.shape[1:] == (3, 32, 32)
    assert rgb.std == (0.2230,) * 3
    next(m for m in MINIATURES if m.id == "cifar10 binary").write(folder)
    gray = load("cifar10", root=folder, channels=1)
    assert gray.images.shape[1] == 1
    assert gray.mean == pytest.approx((0.299 * 0.4914 + 0.587 * 0.4822 + 0.114 * 0.4465,))
