"""Every set and form, read back from a small archive of the same format."""

from pathlib import Path

import numpy as np
import pytest
from miniature_archives import MINIATURES, Miniature

from autocl.data import load
from autocl.data.catalog import CATALOG
from autocl.data.sets.cifar import FC100_SPLIT, SUPER_CLASSES


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOCL_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


@pytest.mark.parametrize("mini", MINIATURES, ids=lambda mini: mini.id)
def test_content(mini: Miniature, folder: Path) -> None:
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
