"""The command line as people use it: options, errors in one line, and exit statuses."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from autocl import __version__
from autocl.cli.main import main
from autocl.cli.train import override
from autocl.errors import InputError
from autocl.recipes import RECIPES, get_recipe

TINY = """
    --sources.0.classes 24 --streams.ways 2 --streams.shots 2 --streams.queries 4 --streams.pool-classes 6
    --streams.pool-images 4 --learner.n-classes 2 --learner.height 16 --learner.width 16
    --learner.encoder.width 4 --learner.model-width 16 --learner.heads 2 --learner.depth 1
    --validation.every 2 --validation.batches 1 --batch-size 4 --steps 3
"""


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def failure(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    """The one line that a command fails with; its status must be 2."""
    with pytest.raises(SystemExit) as end:
        main(args)
    assert end.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("autocl: ")
    assert error.count("\n") == 1
    return error


def test_train_resume_and_what_they_leave(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "run"
    main(["train", "quick", *TINY.split(), "--out", str(out), "--objective.no-acl", "--seed", "9"])
    assert f"the best learner by validation is {out}/best.safetensors" in capsys.readouterr().err
    recipe = json.loads((out / "recipe.json").read_text())
    assert (recipe["seed"], recipe["objective"]["acl"], recipe["streams"]["shots"]) == (9, False, 2)
    assert not any(recipe["sources"][0]["augment"].values())
    main(["train", "--resume", str(out), "--device", "cpu"])
    assert "best learner" in capsys.readouterr().err
    assert "holds a run" in failure(capsys, "train", "quick", *TINY.split(), "--out", str(out))


def test_dry_run_shows_recipe_size_time_and_memory_and_writes_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    main(["train", "quick", *TINY.split(), "--dry-run"])
    out = capsys.readouterr().out
    text = " ".join(out[out.rindex("learner:") :].split())
    assert "parameters" in text
    assert "4 a step, 24 images to encode" in text
    assert "minutes for 3 steps" in text
    assert "MB at the peak" in text
    shown = json.loads(out[: out.rindex("learner:")])
    assert shown["learner"]["model_width"] == 16
    assert list(tmp_path.iterdir()) == []


def test_any_field_can_be_set() -> None:
    options = (
        "--streams.max-tasks 3 --streams.return-chance 0.5 --sources.0.no-rotations "
        "--objective.own-weights 1 2 3 4 --learner.encoder.kind resnet12 --optimiser.betas 0.8 0.9 "
        "--sources.0.augment.rotate 3 --validation.rule paper --bf16 --carry-state 2"
    )
    recipe = override(get_recipe("fast_everyday"), options.split())
    assert recipe.streams.max_tasks == 3
    assert recipe.streams.return_chance == 0.5
    assert not recipe.sources[0].rotations
    assert recipe.sources[0].augment.rotate == 3
    assert recipe.sources[0].augment.scale == get_recipe("fast_everyday").sources[0].augment.scale
    assert recipe.objective.own_weights == (1, 2, 3, 4)
    assert recipe.learner.encoder.kind == "resnet12"
    assert recipe.optimiser.betas == (0.8, 0.9)
    assert recipe.validation.rule == "paper"
    assert recipe.bf16
    assert recipe.carry_state == 2


@pytest.mark.parametrize("name", RECIPES)
def test_no_option_leaves_a_recipe_as_it_is(name: str) -> None:
    assert override(get_recipe(name), []) == get_recipe(name)


def test_augmentation_can_be_switched_on_where_there_is_none() -> None:
    assert override(get_recipe("quick"), ["--sources.0.augment.rotate", "5"]).sources[0].augment.rotate == 5


def test_errors_are_one_line_and_exit_with_2(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "no recipe 'nope': choose one of" in failure(capsys, "train", "nope")
    assert "no command 'trian'" in failure(capsys, "trian")
    assert "is not a run" in failure(capsys, "train", "--resume", str(tmp_path))
    assert "needs the folder" in failure(capsys, "train", "--resume")
    assert "--out needs a value" in failure(capsys, "train", "quick", "--out")


@pytest.mark.parametrize("option", ["--stepz", "--streams.max-tasks"])
def test_unknown_options_exit_with_2(capsys: pytest.CaptureFixture[str], option: str) -> None:
    with pytest.raises(SystemExit) as end:
        main(["train", "quick", option, "3"])
    assert end.value.code == 2
    captured = capsys.readouterr()
    assert option in captured.err + captured.out


def test_debug_shows_where_an_error_comes_from() -> None:
    with pytest.raises(InputError):
        main(["--debug", "train", "nope"])


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--version"])
    assert capsys.readouterr().out.strip() == __version__
    main([])
    assert "usage: autocl COMMAND" in capsys.readouterr().out
    main(["train", "--help"])
    out = capsys.readouterr().out
    assert all(name in out for name in RECIPES)


def test_reader_that_has_seen_enough__no_complaint() -> None:
    command = [sys.executable, "-m", "autocl", "zoo", "everyday"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 141
