"""The functions behind `autocl data`, contact sheets, and the examples in the docstrings."""

from pathlib import Path

import numpy as np
import pytest
from miniature_archives import MINIATURES
from PIL import Image

from autocl.cli import data as commands
from autocl.cli.data import contact_sheet
from autocl.cli.main import run_command
from autocl.data import from_arrays, load, locate
from autocl.data.catalog import CATALOG
from autocl.errors import DataError, InputError


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AUTOCL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("AUTOCL_DATA", str(tmp_path))
    monkeypatch.setattr(locate, "_shared_folders", lambda: iter(()))
    monkeypatch.setattr(locate, "download", _no_network)
    for name in ("mnist", "omniglot"):
        (tmp_path / name).mkdir()
        next(m for m in MINIATURES if m.name == name).write(tmp_path / name)
    return tmp_path


def _no_network(file: object, target: Path) -> Path:
    raise DataError(f"offline: put it at {target}")


def test_list(shared: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "240")
    commands.list_sets()
    text = capsys.readouterr().out
    for name in CATALOG:
        assert name in text
    assert "autocl data get" in text
    assert str(shared / "mnist") in text


def test_get(shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    commands.get("mnist")
    assert "mnist train: 10 classes, 30 images" in capsys.readouterr().out
    with pytest.raises(DataError, match="put it at"):
        commands.get("fc100")


def test_check(shared: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(CATALOG, "glyphs")  # drawing 60,000 images would take a while
    commands.check()
    text = capsys.readouterr().out
    assert "cifar10 train: not here" in text
    assert load("mnist", "test").hash in text
    assert "not a copy known to autocl" in text
    (shared / "mnist" / "train-labels-idx1-ubyte.gz").write_bytes(b"")
    with pytest.raises(DataError, match="train-labels-idx1-ubyte"):
        commands.check("mnist")
    with pytest.raises(DataError, match="put it at"):
        commands.check("cifar10")


def test_show(shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    commands.show("mnist", split="test")
    with Image.open(tmp_path / "mnist-test.png") as sheet:
        assert sheet.size == (2 * (3 * 33 - 1), 2 * (10 * 33 - 1))
    with pytest.raises(DataError, match="cannot write"):
        commands.show("mnist", out=tmp_path / "nowhere" / "x.png")


def test_sheet_shows_the_images() -> None:
    x = np.random.default_rng(0).integers(0, 256, (5, 8, 8, 3), dtype=np.uint8)
    sheet = np.asarray(contact_sheet(from_arrays(x, [0, 0, 0, 1, 1])))[::2, ::2]
    np.testing.assert_array_equal(sheet[:8, 9:17], x[1])
    np.testing.assert_array_equal(sheet[9:17, :8], x[3])
    assert (sheet[9:17, 18:] == 128).all(), "a class with fewer images leaves its row open"
    with pytest.raises(InputError, match="0 classes"):
        contact_sheet(from_arrays(x, [0, 0, 0, 1, 1]), classes=0)


def test_names_are_given_as_the_help_says(
    shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_command("data", ["get", "mnist"])
    run_command("data", ["check", "mnist"])
    run_command("data", ["show", "mnist", "--out", str(tmp_path / "sheet.png")])
    assert "mnist train: 10 classes" in capsys.readouterr().out
    assert (tmp_path / "sheet.png").exists()
