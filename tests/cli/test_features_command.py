"""`autocl features`: sets and folders by name, each once, and words that name nothing."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from autocl.cli import features as command
from autocl.cli.main import run_command
from autocl.encoders.backbones import callable_backbone
from autocl.errors import DataError, InputError


@pytest.fixture(autouse=True)
def _colour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOCL_CACHE", str(tmp_path / "cache"))

    def colour(images: list[Image.Image]) -> np.ndarray:
        return np.stack([np.asarray(image, np.float32).mean((0, 1)) for image in images])

    monkeypatch.setattr(command, "get_backbone", lambda name: callable_backbone(colour, name=name))


def test_sets_and_folders_give_a_line_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for label in ("red", "blue"):
        (tmp_path / "photos" / label).mkdir(parents=True)
        Image.new("RGB", (9, 9), label).save(tmp_path / "photos" / label / "1.png")
    run_command("features", ["mine", "digits", str(tmp_path / "photos"), "--workers", "1"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["digits train", "digits test", "photos all"]
    assert "2 vectors of 3, 2 classes" in lines[2]
    run_command("features", ["mine", "digits/test"])
    (line,) = capsys.readouterr().out.splitlines()
    assert line.split("hash")[1] == lines[1].split("hash")[1]


def test_words_that_name_nothing_are_refused(tmp_path: Path) -> None:
    for word in ("digitz", str(tmp_path / "nowhere"), "digits/nothing"):
        with pytest.raises(DataError, match=r"digitz|nowhere|nothing"):
            run_command("features", ["mine", word])
    with pytest.raises(InputError, match="nothing to compute"):
        command.features("mine", ())
