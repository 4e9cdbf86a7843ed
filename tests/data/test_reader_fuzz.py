"""Damaged files: a clear error, or the same array as before; never anything else."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from miniature_archives import MINIATURES, Miniature

from autocl.data import ImageSet, load
from autocl.errors import DataError

SEED = 1


def _damages(data: bytes, rng: np.random.Generator) -> dict[str, bytes]:
    out = {"empty": b"", "text": b"<html>404 not found</html>\n" * 20, "zeros": bytes(len(data))}
    for i in range(3):
        out[f"cut {i}"] = data[: int(rng.integers(1, len(data)))]
    out["cut by one"] = data[:-1]
    for i in range(6):
        flipped = bytearray(data)
        for at in rng.integers(0, len(data), 1 if i < 3 else 8):
            flipped[at] ^= 1 << int(rng.integers(8))
        out[f"flip {i}"] = bytes(flipped)
    return out


def _attempt(mini: Miniature, split: str, root: Path) -> tuple[ImageSet | None, str]:
    try:
        return load(mini.name, split, root=root), ""
    except DataError as error:
        return None, str(error)


@pytest.mark.parametrize("mini", MINIATURES, ids=lambda mini: mini.id)
def test_damaged_files(mini: Miniature, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOCL_CACHE", str(tmp_path / "cache"))
    sound = tmp_path / "data"
    sound.mkdir()
    mini.write(sound)
    rng = np.random.default_rng(SEED)
    split = next(iter(mini.splits))
    expected = load(mini.name, split, root=sound)
    files = sorted(file for file in sound.rglob("*") if file.is_file())
    pictures = [file for file in files if file.suffix == ".jpg"]
    used = [file for file in files if file not in pictures[1:]]
    refused = 0
    for file in used:
        original = file.read_bytes()
        for what, data in _damages(original, rng).items():
            file.write_bytes(data)
            shutil.rmtree(tmp_path / "cache")
            read, message = _attempt(mini, split, sound)
            if read is None:
                refused += 1
                assert str(sound) in message or "no image of a class" in message, f"{what}: {message}"
            else:
                assert read.images.shape[1:] == expected.images.shape[1:]
                if mini.sealed:
                    assert read.hash == expected.hash, f"{file.name}, {what}: another array"
        file.write_bytes(original)
    assert refused >= 4
