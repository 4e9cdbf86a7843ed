"""Meta-learned baselines go through the one trainer: they learn, resume, and are trained as ours are."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny import assert_same_run, lines, tiny

from autocl.cli.main import main
from autocl.data.stream_config import StreamConfig
from autocl.encoders import EncoderConfig
from autocl.errors import InputError, TrainingError
from autocl.learner import Learner, ReadoutLearnerConfig
from autocl.recipes import fast, get_recipe
from autocl.training import trainer
from autocl.training.recipe import Optimiser, Recipe, Source, Validation
from autocl.training.run import Run
from autocl.training.step import StepResult
from autocl.training.trainer import train

NAMES = ["prototypes", "gemcl", "gemcl-map", "oml", "anml"]
COMMAND_LINE = """
    --sources.0.name glyphs --sources.0.classes 24 --streams.tasks 2 --streams.shots 2
    --streams.min-shots 1 --streams.queries 4 --streams.pool-classes 6 --streams.pool-images 4
    --learner.height 16 --learner.width 16 --learner.encoder.width 4 --batch-size 2 --validation.batches 1
"""


def tiny_baseline(name: str, **changes: object) -> Recipe:
    full = get_recipe(name)
    assert isinstance(full.learner, ReadoutLearnerConfig)
    encoder = EncoderConfig(width=4, gated=full.learner.encoder.gated)
    learner = replace(full.learner, n_classes=4, height=16, width=16, encoder=encoder)
    return tiny(
        name=name,
        learner=learner,
        streams=StreamConfig(
            tasks=2, ways=2, shots=2, queries=4, scenario="class", pool_classes=6, pool_images=4
        ),
        objective=full.objective,
        prototype=full.prototype,
        **changes,
    )


@pytest.mark.parametrize("name", NAMES)
def test_recipes_train_as_our_own_learner_is_trained(name: str) -> None:
    ours, theirs = fast.fast_split_class(), get_recipe(name)
    assert replace(theirs.learner.encoder, gated=False) == ours.learner.encoder
    for field in ("sources", "streams", "batch_size", "seed"):
        assert getattr(theirs, field) == getattr(ours, field)
    for field in ("lr", "warmup", "clip", "schedule"):
        assert getattr(theirs.optimiser, field) == getattr(ours.optimiser, field)
    assert theirs.objective.boundaries == "last"


@pytest.mark.parametrize("name", NAMES)
def test_the_loss_falls_and_gradients_reach_everything(name: str, tmp_path: Path) -> None:
    recipe = tiny_baseline(
        name, optimiser=Optimiser(lr=1e-2), steps=40, validation=Validation(every=40, batches=2)
    )
    encoder = replace(recipe.learner.encoder, dropout=0.0)
    readout = replace(recipe.learner.readout, rate=0.3)
    recipe = replace(recipe, learner=replace(recipe.learner, encoder=encoder, readout=readout))
    torch.manual_seed(recipe.seed)
    before = Learner(recipe.learner).state_dict()
    after = Learner.from_pretrained(train(recipe, tmp_path))
    losses = [line["loss"] for line in lines(tmp_path) if "loss" in line]
    assert np.mean(losses[-10:]) < np.mean(losses[:10])
    if lines(tmp_path)[-1]["validation/score"] > lines(tmp_path)[0]["validation/score"]:
        unmoved = [n for n, p in after.named_parameters() if torch.equal(p, before[n])]
        # A bias in front of instance norm has no effect on anything.
        assert all(n.endswith(".0.bias") for n in unmoved), unmoved


@pytest.mark.parametrize("name", ["oml", "gemcl"])
def test_what_was_stopped_continues_bit_for_bit(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = tiny_baseline(name)
    train(recipe, tmp_path / "whole")
    real = trainer.train_step

    def dying(run: Run, module: torch.nn.Module, step: int) -> StepResult:
        if step == 7:
            raise MemoryError
        return real(run, module, step)

    with monkeypatch.context() as patch:
        patch.setattr(trainer, "train_step", dying)
        with pytest.raises(MemoryError):
            train(recipe, tmp_path / "parts", save_every=0.0)
    train(recipe, tmp_path / "parts", resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


def test_a_loss_that_is_not_finite_ends_the_run(tmp_path: Path) -> None:
    recipe = tiny_baseline("oml")
    wild = replace(recipe.learner, readout=replace(recipe.learner.readout, rate=1e20))
    lost = r"(became nan|NaN or infinity)(?s:.*) at step 0 .* lower --optimiser.lr"
    with pytest.raises(TrainingError, match=lost):
        train(replace(recipe, learner=wild), tmp_path)


def test_the_command_line_trains_resumes_and_lists_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "gemcl"
    main(["train", "gemcl", "--out", str(folder), "--steps", "2", *COMMAND_LINE.split()])
    assert f"the best learner by validation is {folder / 'best.safetensors'}" in capsys.readouterr().err
    main(["train", "--resume", str(folder)])
    assert [line["step"] for line in lines(folder) if "loss" in line] == [0, 1]
    assert Learner.from_pretrained(folder / "best.safetensors").config.readout.kind == "normal-gamma"
    main(["train", "--help"])
    shown = capsys.readouterr().out
    assert not [name for name in NAMES if f"\n  {name} " not in shown]


def test_recipes_refuse_what_cannot_work() -> None:
    with pytest.raises(InputError, match=r"raise learner\.n_classes"):
        replace(tiny_baseline("oml"), learner=ReadoutLearnerConfig(n_classes=3))
    with pytest.raises(InputError, match=r"Source\.classes must be at least 1"):
        Source(name="glyphs", classes=0)
