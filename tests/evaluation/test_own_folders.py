"""One's own folders of images: in, matrix and figure out."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from known_methods import small_learner
from PIL import Image

from autocl.cli.main import run_command
from autocl.data.folder import from_folder
from autocl.encoders import EncoderConfig
from autocl.encoders.backbones import callable_backbone
from autocl.errors import InputError
from autocl.evaluation.own import evaluate_folder, parse_tasks
from autocl.learner import ReadoutLearner, ReadoutLearnerConfig
from autocl.learner.find import find_learner

FLAT = EncoderConfig(kind="identity")


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
    result = evaluate_folder(small_learner(4), folder, "dog, ant; cat", shots=3, runs=2)
    assert result.tasks == ("dog,ant", "cat")
    assert result.classes == ("dog", "ant", "cat")
    assert result.matrix.values.shape == (2, 2, 2)
    assert result.queries == (10, 5)


def test_rivals_stand_on_the_same_features__what_is_lost_has_two_causes(folder: Path) -> None:
    result = evaluate_folder(small_learner(4), folder, shots=3, runs=2)
    assert list(result.known) == ["learner", "class means", "LDA", "1-NN"]
    assert [k.keeps_demos for k in result.known.values()] == [False, False, False, True]
    for known in result.known.values():
        assert known.now.shape == known.new.shape == known.at_once.shape == (2, 4)
        # Tasks have two classes of equally many images, so their mean is the task's accuracy.
        assert torch.allclose(known.now.unflatten(1, (2, 2)).mean(2), known.matrix.last)
        assert torch.allclose(known.new.unflatten(1, (2, 2)).mean(2), known.matrix.diagonal)
        lost = 100 * float((known.new - known.now).mean())
        assert known.choice + known.forgetting == pytest.approx(lost)
    for name in ("class means", "1-NN"):
        known = result.known[name]
        assert torch.equal(known.now, known.at_once), "sums and sets know no order: nothing is forgotten"
        assert known.forgetting == 0


def test_any_number_of_classes_for_a_learner_that_grows(folder: Path) -> None:
    config = ReadoutLearnerConfig(n_classes=2, channels=1, height=8, width=8, encoder=FLAT)
    result = evaluate_folder(ReadoutLearner(config).eval(), folder, shots=3, runs=1)
    assert torch.equal(result.ours.now, result.known["class means"].now)


def _levels(images: list[Image.Image]) -> np.ndarray:
    """Mean gray of each image, one of four levels, as a bump among 16."""
    gray = np.array([np.asarray(image, np.float32).mean() for image in images])
    return np.exp(-((gray[:, None] - np.arange(0, 256, 16)) ** 2) / 200).astype(np.float32)


def test_a_learner_of_vectors_needs_a_backbone(folder: Path) -> None:
    with pytest.raises(InputError, match="--backbone"):
        evaluate_folder(find_learner("vectors"), folder)
    backbone = callable_backbone(_levels, name="levels", image_size=8)
    result = evaluate_folder(find_learner("vectors"), folder, backbone=backbone, shots=3, runs=1)
    assert float(result.known["class means"].now.mean()) > 0.9, "the levels of gray are far apart"


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
    long = "a class with a long name, spelled out in full"
    (folder / "dog").rename(folder / long)
    run_command("eval", [str(file), "--data", str(folder), "--runs", "2", "--out", str(out)])
    printed = capsys.readouterr().out
    for part in ("average accuracy", "mine", "1-NN*", "at once", long, "more classes to choose from"):
        assert part in printed
    saved = json.loads((out / "eval.json").read_text())
    assert saved["learner"]["name"] == "mine"
    assert saved["tasks"] == [f"{long},ant", "bee,cat"]
    ours = saved["methods"]["mine"]
    assert np.shape(ours["matrix"]) == (2, 2, 2)
    assert ours["matrix"][0][0][1] is None, "tasks to come were not asked"
    assert np.shape(ours["now"]) == (2, 4)
    assert Image.open(out / "matrix.png").size[0] > 100
