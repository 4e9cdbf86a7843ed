"""Meta-training of rivals: it learns, is judged on validation classes, and loses nothing when it ends."""

import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny import lines

from autocl.cli.main import main
from autocl.data.stream_config import StreamConfig
from autocl.encoders import EncoderConfig
from autocl.errors import InputError, TrainingError
from autocl.files import read_tensors
from autocl.baselines import get_method
from autocl.baselines.rival import Rival, RivalConfig
from autocl.recipes import fast
from autocl.recipes.rivals import RIVALS
from autocl.training import rivals
from autocl.training.interrupt import InterruptedRunError
from autocl.training.recipe import Source
from autocl.training.rival_recipe import RivalRecipe
from autocl.training.rivals import train_rival

TINY = {"channels": 1, "height": 16, "width": 16, "encoder": EncoderConfig(width=4), "n_outputs": 4}
COMMAND_LINE = """
    --source.name glyphs --source.classes 24 --streams.tasks 2 --streams.shots 2 --streams.fewest-shots 1
    --streams.queries 4 --streams.pool-classes 6 --streams.pool-images 4 --rival.height 16 --rival.width 16
    --rival.encoder.width 4 --batch-size 2 --validate-batches 1
"""


def tiny_rival(name: str, **changes: object) -> RivalRecipe:
    recipe = RivalRecipe(
        name=name,
        rival=replace(RIVALS[name]().rival, **TINY),
        source=Source(name="glyphs", classes=24, augment=fast.HANDWRITING),
        streams=StreamConfig(
            tasks=2, ways=2, shots=2, queries=4, scenario="class", pool_classes=6, pool_images=4
        ),
        steps=6,
        batch_size=2,
        warmup=2,
        validate_every=4,
        validate_batches=2,
    )
    return replace(recipe, **changes)


@pytest.mark.parametrize("name", RIVALS)
def test_recipes_train_as_our_own_learner_is_trained(name: str) -> None:
    ours, theirs = fast.fast_split_class(), RIVALS[name]()
    assert (theirs.source,) == ours.sources
    assert theirs.rival.encoder == ours.learner.encoder
    for field in ("streams", "batch_size", "seed"):
        assert getattr(theirs, field) == getattr(ours, field)
    for field in ("lr", "warmup", "clip"):
        assert getattr(theirs, field) == getattr(ours.optimiser, field)


@pytest.mark.parametrize("name", RIVALS)
def test_the_loss_falls_and_gradients_reach_everything(name: str, tmp_path: Path) -> None:
    plain = {**TINY, "encoder": EncoderConfig(width=4, dropout=0.0), "rate": 0.3}
    rival = replace(RIVALS[name]().rival, **plain)
    recipe = tiny_rival(
        name, rival=rival, source=Source(name="glyphs", classes=24), steps=40, lr=1e-2, validate_every=40
    )
    torch.manual_seed(recipe.seed)
    before = Rival(recipe.rival).state_dict()
    file = train_rival(recipe, tmp_path)
    losses = [line["loss"] for line in lines(tmp_path) if "loss" in line]
    assert np.mean(losses[-10:]) < np.mean(losses[:10])
    after = Rival.load(file)
    unmoved = [n for n, p in after.named_parameters() if torch.equal(p, before[n])]
    # A bias in front of instance norm has no effect on anything.
    assert all(n.endswith(".0.bias") for n in unmoved), unmoved
    card = json.loads((tmp_path / "card.json").read_text())
    assert card["validation"]["accuracy"] == pytest.approx(
        100 * lines(tmp_path)[-1]["validation/score"], abs=0.01
    )
    assert (card["step"], card["recipe"]["seed"]) == (40, 1)
    assert get_method(name, rival=file).settings()["rival"] == after.fingerprint()


def assert_same(a: Path, b: Path) -> None:
    assert lines(a) == lines(b)
    for name, kind in (("best.safetensors", "rival"), ("last.safetensors", "checkpoint")):
        ours, theirs = (read_tensors(f / name, kind=kind)[0] for f in (a, b))
        assert ours.keys() == theirs.keys()
        assert not [n for n, t in ours.items() if not torch.equal(t, theirs[n])]


@pytest.mark.parametrize("end", ["signal", "death"])
def test_what_was_stopped_continues_bit_for_bit(
    end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = tiny_rival("oml", prototype=1.0)
    train_rival(recipe, tmp_path / "whole")
    real = rivals.rival_step

    def stopping(run: rivals.RivalRun, step: int) -> dict[str, float]:
        if step == 3:
            if end == "death":
                raise MemoryError
            os.kill(os.getpid(), signal.SIGINT)
        return real(run, step)

    with monkeypatch.context() as patch:
        patch.setattr(rivals, "rival_step", stopping)
        with pytest.raises(InterruptedRunError if end == "signal" else MemoryError):
            train_rival(recipe, tmp_path / "parts", save_every=0.0)
    steps = [line["step"] for line in lines(tmp_path / "parts") if "loss" in line]
    assert steps == [0, 1, 2, 3][: 4 if end == "signal" else 3]
    train_rival(recipe, tmp_path / "parts", resume=True)
    assert_same(tmp_path / "whole", tmp_path / "parts")


def test_the_best_by_validation_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scores = iter([0.2, 0.2, 0.9, 0.9, 0.4, 0.4])
    real = rivals.stream_loss

    def scored(rival: Rival, features: torch.Tensor, batch: object) -> object:
        outcome = real(rival, features, batch)
        return outcome if rival.training else replace(outcome, accuracy=next(scores))

    monkeypatch.setattr(rivals, "stream_loss", scored)
    file = train_rival(tiny_rival("gemcl", validate_every=2), tmp_path)
    assert read_tensors(file, kind="rival")[1]["step"] == "4"
    assert json.loads((tmp_path / "card.json").read_text())["validation"]["accuracy"] == 90.0


def test_a_run_is_not_overwritten_nor_resumed_with_another_recipe(tmp_path: Path) -> None:
    recipe = tiny_rival("prototypes", steps=1)
    train_rival(recipe, tmp_path)
    with pytest.raises(TrainingError, match="holds a run"):
        train_rival(recipe, tmp_path)
    with pytest.raises(TrainingError, match="not started with this recipe"):
        train_rival(replace(recipe, lr=1.0), tmp_path, resume=True)


def test_a_loss_that_is_not_finite_ends_the_run_before_the_weights_change(tmp_path: Path) -> None:
    wild = replace(tiny_rival("oml").rival, rate=1e20)
    with pytest.raises(TrainingError, match=r"Lower lr \(0.002\) or rival.rate \(1e\+20\)"):
        train_rival(tiny_rival("oml", rival=wild), tmp_path)


def test_dry_run__shows_recipe_size_and_time_and_writes_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    main(["train", "gemcl", "--dry-run", "--steps", "7", *COMMAND_LINE.split()])
    out = capsys.readouterr().out
    shown, text = json.loads(out[: out.rindex("rival:")]), " ".join(out[out.rindex("rival:") :].split())
    assert shown["rival"]["encoder"]["width"] == 4
    assert "2 a step, 24 images to encode" in text
    assert "minutes for 7 steps" in text
    assert list(tmp_path.iterdir()) == []


def test_the_command_line_trains_resumes_and_lists_rivals(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "gemcl"
    main(["train", "gemcl", "--out", str(folder), "--steps", "2", *COMMAND_LINE.split()])
    assert f"the best rival by validation is {folder / 'best.safetensors'}" in capsys.readouterr().err
    main(["train", "--resume", str(folder)])
    assert "the best rival by validation is" in capsys.readouterr().err
    assert [line["step"] for line in lines(folder)] == [0, 1, 2]
    assert Rival.load(folder / "best.safetensors").config.readout == "normal-gamma"
    main(["train", "--help"])
    shown = capsys.readouterr().out
    assert not [name for name in RIVALS if f"\n  {name} " not in shown]


def test_recipes_refuse_what_cannot_work() -> None:
    for change in ({"steps": 0}, {"lr": 0.0}, {"warmup": -1}):
        with pytest.raises(InputError, match=next(iter(change))):
            tiny_rival("gemcl", **change)
    with pytest.raises(InputError, match=r"raise rival\.n_outputs"):
        tiny_rival("oml", rival=RivalConfig(readout="online", n_outputs=3))
