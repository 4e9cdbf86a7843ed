"""Meta-training on a folder of one's own images."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tiny import COMMAND_LINE, lines

from autocl.cli.main import run_command
from autocl.errors import DataError
from autocl.learner import Learner
from autocl.training.recipe import Source
from autocl.training.sources import load_sets


@pytest.fixture
def stamps(tmp_path: Path) -> Path:
    rng, top = np.random.default_rng(0), tmp_path / "stamps"
    for number in range(20):
        (top / f"country{number:02}").mkdir(parents=True)
        for copy in range(5):
            pixels = rng.integers(0, 256, (12, 16, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(top / f"country{number:02}" / f"{copy}.png")
    return top


def test_the_last_fifth_of_the_classes_validates(stamps: Path) -> None:
    train, val = load_sets(Source(name=str(stamps)), size=16, channels=1)
    assert train.images.shape == (80, 1, 16, 16)
    assert val.classes == tuple(f"country{number}" for number in (16, 17, 18, 19))
    assert not set(train.classes) & set(val.classes)


def test_one_option_of_any_recipe_names_the_folder(stamps: Path, tmp_path: Path) -> None:
    options = [*COMMAND_LINE.split(), "--sources.0.name", str(stamps), "--steps", "2"]
    run_command("train", ["quick", *options, "--out", str(tmp_path / "run")])
    logged = lines(tmp_path / "run")
    assert any("accuracy/stamps/1/own" in line for line in logged)
    assert Learner.from_pretrained(tmp_path / "run" / "best.safetensors").config.n_classes == 2


def test_neither_a_set_nor_a_folder() -> None:
    with pytest.raises(DataError, match=r"no image set 'stampz'.*a folder with one folder per class"):
        load_sets(Source(name="stampz"), size=16, channels=1)
