"""A user's own data: folders and arrays."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from autocl.data import folder, from_arrays, from_folder
from autocl.errors import DataError, InputError

RNG = np.random.default_rng(0)


@pytest.fixture
def pets(tmp_path: Path) -> Path:
    for name, count in (("dog", 3), ("cat", 2)):
        (tmp_path / name).mkdir()
        for i in range(count):
            pixels = RNG.integers(0, 256, (20, 30, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / name / f"{i}.png")
    (tmp_path / "cat" / "readme.txt").write_text("not an image")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / "empty").mkdir()
    return tmp_path


def test_folder(pets: Path) -> None:
    s = from_folder(pets, size=16)
    assert s.classes == ("cat", "dog")
    assert s.counts.tolist() == [2, 3]
    assert s.images.shape == (5, 3, 16, 16)
    assert s.name == pets.name
    assert s.mean == pytest.approx(tuple((s.images / 255).mean(axis=(0, 2, 3))))
    assert s.std == pytest.approx(tuple((s.images / 255).std(axis=(0, 2, 3))))
    assert from_folder(pets, channels=1).images.shape == (5, 1, 32, 32)


def test_folder_with_a_damaged_image(pets: Path) -> None:
    (pets / "dog" / "1.png").write_bytes((pets / "dog" / "1.png").read_bytes()[:100])
    with pytest.raises(DataError, match=r"dog/1\.png"):
        from_folder(pets)


def test_folder_without_images(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no folder with images"):
        from_folder(tmp_path)
    with pytest.raises(DataError, match="is not a folder"):
        from_folder(tmp_path / "nowhere")


@pytest.mark.parametrize("shape", [(6, 8, 9), (6, 8, 9, 1), (6, 1, 8, 9), (6, 8, 9, 3), (6, 3, 8, 9)])
@pytest.mark.parametrize("kind", ["uint8", "float32"])
def test_arrays(shape: tuple[int, ...], kind: str) -> None:
    x = RNG.integers(0, 256, shape, dtype=np.uint8)
    y = [9, 4, 4, 9, 4, 9]
    s = from_arrays(x if kind == "uint8" else (x / 255).astype(kind), y)
    channels = 3 if 3 in shape else 1
    assert s.images.shape == (6, channels, 8, 9)
    assert s.classes == ("4", "9")
    assert s.order is not None
    assert s.order.tolist() == [1, 2, 4, 0, 3, 5]
    first = x[1] if x.ndim == 3 or shape[1] in (1, 3) else x[1].transpose(2, 0, 1)
    np.testing.assert_array_equal(s.images[0], first.reshape(channels, 8, 9))
    z = s.take(torch.arange(6))
    assert z.mean().item() == pytest.approx(0, abs=0.1)


def test_string_labels_names_and_size() -> None:
    s = from_arrays(np.zeros((3, 8, 8), np.uint8), ["b", "a", "b"], size=16, name="mine")
    assert (s.name, s.classes, s.images.shape) == ("mine", ("a", "b"), (3, 1, 16, 16))
    assert s.std == (1.0,), "constant images have no deviation"
    assert from_arrays(np.zeros((2, 8, 8), np.uint8), [0, 1], classes=("x", "y")).classes == ("x", "y")


@pytest.mark.parametrize(
    ("x", "y", "words"),
    [
        (np.zeros((2, 8), np.uint8), [0, 1], r"\[2, 8\]"),
        (np.zeros((0, 8, 8), np.uint8), [], "not empty"),
        (np.zeros((2, 3, 8, 3), np.uint8), [0, 1], "both"),
        (np.zeros((2, 8, 8, 2), np.uint8), [0, 1], "neither"),
        (np.zeros((2, 8, 8), np.int64), [0, 1], "int64"),
        (np.full((2, 8, 8), 2.0), [0, 1], "2 to 2"),
        (np.full((2, 8, 8), np.nan), [0, 1], "nan"),
        (np.zeros((2, 8, 8), np.uint8), [0, 1, 2], r"\[3\]"),
        (np.zeros((2, 8, 8), np.uint8), [0.5, 1.0], "float64"),
    ],
)
def test_bad_arrays(x: np.ndarray, y: list[float], words: str) -> None:
    with pytest.raises(InputError, match=words):
        from_arrays(x, y)
    with pytest.raises(InputError, match="2 names"):
        from_arrays(np.zeros((3, 8, 8), np.uint8), [0, 1, 2], classes=("a", "b"))


def test_a_large_folder_is_decoded_once_until_it_changes(tmp_path, monkeypatch):
    monkeypatch.setenv("AUTOCL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(folder, "WORTH_KEEPING", 4)
    top = tmp_path / "pictures"
    for label in ("a", "b"):
        (top / label).mkdir(parents=True)
        for i in range(2):
            Image.new("RGB", (9, 9), (i * 90, 0, 7)).save(top / label / f"{i}.png")
    opened = []
    decode = folder.decode
    monkeypatch.setattr(folder, "decode", lambda file, **how: opened.append(file) or decode(file, **how))
    first, again = (folder.from_folder(top, size=8) for _ in range(2))
    assert len(opened) == 4
    assert first.hash == again.hash
    Image.new("RGB", (9, 9), (200, 0, 7)).save(top / "b" / "1.png")
    changed = folder.from_folder(top, size=8)
    assert len(opened) == 8
    assert changed.hash != first.hash
    assert changed.images[3, 0].max() == 200
    (top / "b" / "0.png").unlink()
    (top / "b" / "2.png").write_bytes((top / "b" / "1.png").read_bytes())
    folder.from_folder(top, size=8)
    assert len(opened) == 12
    kept = [path for path in (tmp_path / "cache" / "decoded").iterdir() if path.is_dir()]
    assert len(kept) == 1, "older editions do not pile up"
    folder.from_folder(top, size=16)
    assert len(opened) == 16
