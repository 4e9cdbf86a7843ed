"""What a run survives: two trainers at once, other images, divergence, kills at the start; and stages."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tiny import LEARNER, assert_same_run, lines, tiny

from autocl.cli.main import main
from autocl.data.sampler import StreamSampler
from autocl.errors import FileError, TrainingError
from autocl.learner import Learner, ReadoutLearnerConfig
from autocl.learner.find import find_learner
from autocl.recipes import get_recipe
from autocl.training import checkpoint, trainer
from autocl.training.log import read_log
from autocl.training.recipe import Optimiser, Recipe, Source, Validation, read_recipe
from autocl.training.run import InterruptedRunError, Run
from autocl.training.step import StepResult
from autocl.training.trainer import train

LINEAR = replace(LEARNER, readout="linear")


def stop_at(monkeypatch: pytest.MonkeyPatch, step: int, name: str = "tiny") -> None:
    """Die in the given step of the stage of that name."""
    real = trainer.train_step

    def dying(run: Run, module: torch.nn.Module, at: int) -> StepResult:
        if at == step and run.recipe.name == name:
            raise MemoryError
        return real(run, module, at)

    monkeypatch.setattr(trainer, "train_step", dying)


def test_a_second_trainer_is_told_who_holds_the_folder(tmp_path: Path) -> None:
    held = f"""
import time
from pathlib import Path
from autocl.training.checkpoint import locked
with locked(Path({str(tmp_path)!r})):
    print("held", flush=True)
    time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", held], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(TrainingError, match=f"in use by process {other.pid} on .*another --out"):
            train(tiny(), tmp_path)
        other.kill()
    train(tiny(steps=1), tmp_path)  # a lock dies with its process


def test_step_0_is_validated_once_however_often_the_run_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = tiny(validation=Validation(every=4, batches=1), steps=4)
    train(recipe, tmp_path / "whole")
    for attempt in range(3):
        with monkeypatch.context() as patch:
            stop_at(patch, 2)
            with pytest.raises(MemoryError):
                train(recipe, tmp_path / "killed", resume=attempt > 0)
    train(recipe, tmp_path / "killed", resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "killed")
    assert [line["step"] for line in lines(tmp_path / "killed") if "validation/score" in line] == [0, 4]


@pytest.mark.parametrize("signum", [signal.SIGHUP, signal.SIGTERM])
def test_a_closed_terminal_saves_as_sigterm_does(
    signum: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = trainer.train_step

    def signalling(run: Run, module: torch.nn.Module, step: int) -> StepResult:
        if step == 5:
            os.kill(os.getpid(), signum)
        return real(run, module, step)

    monkeypatch.setattr(trainer, "train_step", signalling)
    with pytest.raises(InterruptedRunError, match=f"stopped by {signum.name}"):
        train(tiny(), tmp_path)
    assert checkpoint.read_progress(tmp_path).step == 6


def draw_folder(path: Path, classes: int) -> None:
    rng = np.random.default_rng(0)
    for c in range(classes):
        (path / f"class{c:02d}").mkdir(parents=True, exist_ok=True)
        for i in range(6):
            pixels = rng.integers(0, 255, (16, 16), dtype=np.uint8)
            Image.fromarray(pixels).save(path / f"class{c:02d}" / f"{i}.png")


def test_a_run_is_not_resumed_with_other_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw_folder(tmp_path / "mine", 12)
    streams = replace(tiny().streams, pool_classes=4, pool_images=4, queries=2)
    streams = replace(streams, tasks=1)
    recipe = tiny(sources=(Source(name=str(tmp_path / "mine")),), streams=streams)
    with monkeypatch.context() as patch:
        stop_at(patch, 5)
        with pytest.raises(MemoryError):
            train(recipe, tmp_path / "run")
    extra = tmp_path / "mine" / "class03" / "extra.png"
    Image.fromarray(np.zeros((16, 16), np.uint8)).save(extra)
    with pytest.raises(TrainingError, match="begun with other images of mine"):
        train(recipe, tmp_path / "run", resume=True)
    extra.unlink()
    train(recipe, tmp_path / "run", resume=True)


@pytest.mark.parametrize("learner", [LEARNER, LINEAR], ids=["ridge", "linear"])
def test_a_diverged_run_goes_back_and_on_with_a_lower_rate(
    learner: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wild = tiny(
        learner=learner,
        validation=Validation(every=1, batches=1),
        optimiser=Optimiser(lr=1e30, schedule="constant"),
    )
    with pytest.raises(
        TrainingError, match=r"the run is back at step 0\. .*lower --optimiser.lr \(now 1e\+30\)"
    ):
        train(wild, tmp_path)
    assert checkpoint.read_progress(tmp_path).step == 0
    with pytest.raises(TrainingError, match="the run is back at step 0"):
        train(wild, tmp_path, resume=True)
    tame = replace(wild, optimiser=replace(wild.optimiser, lr=1e-3))
    train(tame, tmp_path, resume=True)
    assert checkpoint.read_progress(tmp_path).step == 12
    assert read_recipe(tmp_path).optimiser.lr == 1e-3
    with pytest.raises(TrainingError, match=r"another recipe \(seed: 5, not 1\)"):
        train(replace(tame, seed=5), tmp_path, resume=True)


def test_the_command_line_resumes_with_another_rate_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patch:
        stop_at(patch, 5)
        with pytest.raises(MemoryError):
            train(tiny(), tmp_path)
    with pytest.raises(SystemExit) as stop:
        main(["train", "--resume", str(tmp_path), "--steps", "99"])
    assert stop.value.code == 2
    assert "another recipe (steps: 99, not 12)" in capsys.readouterr().err
    main(["train", "--resume", str(tmp_path), "--optimiser.lr", "0.0001", "--device", "cpu"])
    assert read_recipe(tmp_path).optimiser.lr == 1e-4
    assert lines(tmp_path)[-2]["rate"] < 1e-4


def test_a_torn_last_line_is_skipped_and_another_one_is_named(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text('{"step": 0, "loss": 1.0}\n{"step": 1, "lo')
    assert read_log(log) == [{"step": 0, "loss": 1.0}]
    log.write_text('{"step": 0, "lo\n{"step": 1, "loss": 1.0}\n')
    with pytest.raises(FileError, match="line 1: damaged"):
        read_log(log)
    log.write_text("[1, 2]\n")
    with pytest.raises(FileError, match="line 1: it must be an object"):
        read_log(log)


def test_what_a_killed_process_was_writing_is_cleaned_up(tmp_path: Path) -> None:
    for name in (".recipe.json.ab12cd", ".last.safetensors.ab12cd", ".data.json.xy"):
        (tmp_path / name).write_text("half")
    train(tiny(steps=1), tmp_path)
    assert {p.name for p in tmp_path.iterdir() if p.name.startswith(".")} == {".lock"}


def test_a_device_that_is_not_there_is_named_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for device, said in (("cuda", "PyTorch sees no CUDA here"), ("gpu", "no device 'gpu'")):
        with pytest.raises(SystemExit) as stop:
            main(["train", "quick", "--device", device, "--out", str(tmp_path / "run")])
        assert stop.value.code == 2
        error = capsys.readouterr().err
        assert said in error
        assert error.count("\n") == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["paper_split_domain", "paper_split_class", "fast_two_task_long"])
def test_a_finetuning_recipe_does_not_start_from_scratch(name: str, tmp_path: Path) -> None:
    with pytest.raises(
        TrainingError, match=f"recipe {name} finetunes a learner and was given none.*--init-from"
    ):
        train(get_recipe(name), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def staged() -> Recipe:
    first = tiny(name="first", learner=LINEAR, steps=4)
    return tiny(name="last", stages=(first, replace(first, name="second", steps=6)), finetune=True, seed=3)


def test_stages_run_one_after_the_other_from_the_best_before(tmp_path: Path) -> None:
    best = train(staged(), tmp_path)
    assert best == tmp_path / "best.safetensors"
    assert [checkpoint.read_progress(tmp_path / p).step for p in ("stage1", "stage2", "")] == [4, 6, 12]
    assert read_recipe(tmp_path) == staged()
    assert read_recipe(tmp_path / "stage1").seed == 3
    # A second stage on its own, started from the first one's learner, is the same run.
    alone = replace(staged().all_stages[1], init_from=str(tmp_path / "stage1" / "best.safetensors"))
    train(alone, tmp_path / "alone")
    assert lines(tmp_path / "alone") == lines(tmp_path / "stage2")
    assert Learner.from_pretrained(best).config == LEARNER


@pytest.mark.parametrize("name", ["first", "second", "last"])
def test_a_staged_run_resumes_at_any_stage(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(staged(), tmp_path / "whole")
    with monkeypatch.context() as patch:
        stop_at(patch, 3, name)
        with pytest.raises(MemoryError):
            train(staged(), tmp_path / "parts", save_every=0.0)
    with pytest.raises(TrainingError, match="holds a run"):
        train(staged(), tmp_path / "parts")
    train(read_recipe(tmp_path / "parts"), tmp_path / "parts", resume=True)
    for stage in ("stage1", "stage2", ""):
        assert_same_run(tmp_path / "whole" / stage, tmp_path / "parts" / stage)


def test_a_learner_of_another_kind_is_no_start(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="gemcl is a learner of another kind"):
        train(tiny(init_from="gemcl"), tmp_path)


@pytest.mark.parametrize("as_stage", [False, True])
def test_a_readout_takes_over_the_encoder_of_fast_weights(as_stage: bool, tmp_path: Path) -> None:
    fast = train(tiny(steps=1), tmp_path / "fast")
    base = tiny(steps=1)
    learner = ReadoutLearnerConfig(
        n_classes=base.learner.n_classes, channels=base.learner.channels, height=base.learner.height,
        width=base.learner.width, encoder=replace(base.learner.encoder, dropout=0.0),
    )  # fmt: skip
    rate = replace(base.optimiser, lr=0.0, schedule="constant")
    second = replace(base, learner=learner, optimiser=rate, init_from="" if as_stage else str(fast))
    made = train(replace(second, stages=(tiny(steps=1),) if as_stage else ()), tmp_path / "readout")
    ours, theirs = (find_learner(path).encoder.state_dict() for path in (made, fast))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_the_images_of_a_run_are_written_down(tmp_path: Path) -> None:
    train(tiny(steps=1), tmp_path)
    noted = json.loads((tmp_path / checkpoint.DATA).read_text())
    assert [entry["set"] for entry in noted] == ["glyphs/train", "glyphs/val"]
    assert all(len(entry["hash"]) == 64 for entry in noted)


def test_images_are_standardised_as_the_learner_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: set[str] = set()
    real = StreamSampler.images

    def noting(self: StreamSampler, *args: object, **options: object) -> torch.Tensor:
        asked.add(str(options["standardise"]))
        return real(self, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(StreamSampler, "images", noting)
    train(tiny(steps=1, learner=replace(LEARNER, standardise="image")), tmp_path)
    assert asked == {"image"}
