"""One's own folders of images: in, matrix and figure out."""

import json
from pathlib import Path

import numpy as np
import pytest
from known_methods import small_learner
from PIL import Image

from autocl.cli.main import run_command
from autocl.data.folder import from_folder
from autocl.errors import InputError
from autocl.evaluation.own import evaluate_folder, parse_tasks


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    for level, name in enumerate(["ant", "bee", "cat", "dog"]):
        (tmp_path / "animals" / name).mkdir(parents=True)
        for i in range(8):
            pixels = np.clip(rng.normal(40 + 60 * level, 5, (8, 8)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "animals" / name / f"{i}.png")
    return tmp_path / "animals"


def test_matrix_over_named_tasks(folder: Path) -> None:
    result = evaluate_folder(small_learner(4), folder, "dog, ant; cat", shots=3, runs=2, forward=True)
    assert result.tasks == ("dog,ant", "cat")
    assert result.matrix.values.shape == (2, 2, 2)
    assert result.queries == (10, 5)
    assert set(result.metrics()) >= {"average accuracy", "backward transfer", "accuracy before learning"}


def test_two_classes_a_task_unless_told(folder: Path) -> None:
    result = evaluate_folder(small_learner(4), folder, runs=1, queries=4)
    assert result.tasks == ("ant,bee", "cat,dog")
    assert result.queries == (4, 4)


@pytest.mark.parametrize(
    ("tasks", "said"),
    [
        ("ant,cow;bee", "no class 'cow'"),
        ("ant;;bee", "empty task"),
        ("ant,bee;ant", "'ant' occurs twice"),
        ("", "empty"),
    ],
)
def test_tasks_that_cannot_be_are_named(folder: Path, tasks: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        parse_tasks(tasks, from_folder(folder, size=8, channels=1))


def test_too_few_outputs_or_images_are_said(folder: Path) -> None:
    with pytest.raises(InputError, match="4 outputs are needed, this learner has 3"):
        evaluate_folder(small_learner(3), folder)
    assert evaluate_folder(small_learner(3), folder, scenario="domain", runs=1).matrix.tasks == 2
    with pytest.raises(InputError, match="8 images"):
        evaluate_folder(small_learner(4), folder, shots=9)
    with pytest.raises(InputError, match="runs"):
        evaluate_folder(small_learner(4), folder, runs=0)


def test_the_command_prints_and_saves(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = small_learner(4).save_pretrained(tmp_path / "mine.safetensors")
    out = tmp_path / "out"
    run_command(
        "eval",
        [str(file), "--data", str(folder), "--tasks", "ant,bee;cat,dog", "--runs", "2", "--out", str(out)],
    )
    printed = capsys.readouterr().out
    assert "average accuracy" in printed
    saved = json.loads((out / "matrix.json").read_text())
    assert saved["learner"]["name"] == "mine"
    assert saved["tasks"] == ["ant,bee", "cat,dog"]
    assert np.shape(saved["matrix"]) == (2, 2, 2)
    assert saved["matrix"][0][0][1] is None, "tasks to come were not asked"
    assert Image.open(out / "matrix.png").size[0] > 100
