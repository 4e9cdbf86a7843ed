"""What chooses a checkpoint."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tiny import LEARNER, tiny

from autocl.data import load
from autocl.errors import DataError
from autocl.files import read_tensors
from autocl.learner import Learner
from autocl.matrix import TransferMatrix
from autocl.objective import ObjectiveConfig
from autocl.training import trainer
from autocl.training.recipe import Source, Validation
from autocl.training.run import samplers
from autocl.training.trainer import SPLIT_RUNS, score, train, validate_split, validate_streams


def test_forgetting_counts_by_our_rule_and_not_by_the_authors() -> None:
    forgetful = TransferMatrix(torch.tensor([[0.9, torch.nan], [0.2, 0.8]]))
    assert score(forgetful, "average") == pytest.approx(0.5)
    assert score(forgetful, "paper") == pytest.approx(0.85)


def test_what_is_minimised_chooses_unless_the_recipe_says_otherwise() -> None:
    assert tiny().rule == "average"
    assert tiny(objective=ObjectiveConfig(acl=False)).rule == "learned"
    assert tiny(objective=ObjectiveConfig(acl=False), validation=Validation(rule="average")).rule == "average"


def test_the_rule_of_the_recipe_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Learns ever better and forgets ever more: the authors keep the last, we keep the first.
    learned = iter([0.5, 0.6, 0.7, 0.8] * 2)
    at_the_end = iter([0.5, 0.4, 0.3, 0.2] * 2)

    def forgetting(*args: object, **kwargs: object) -> list[TransferMatrix]:
        own = next(learned)
        return [TransferMatrix(torch.tensor([[own, torch.nan], [next(at_the_end), own]]))] * 2

    monkeypatch.setattr(trainer, "validate_streams", forgetting)
    best = {}
    for rule in ("average", "paper"):
        train(tiny(steps=3, validation=Validation(every=1, rule=rule)), tmp_path / rule)
        best[rule] = read_tensors(tmp_path / rule / "best.safetensors", kind="learner")[1]["step"]
    assert best == {"average": "0", "paper": "3"}


def test_validation_streams_are_the_same_every_time_and_in_one_order_for_the_authors_rule() -> None:
    sources = (Source(name="glyphs", classes=24), Source(name="glyphs", classes=30))
    recipe = tiny(sources=sources, streams=replace(tiny().streams, order="alternate"))
    _, sampler = samplers(recipe)
    learner = Learner(LEARNER).eval()
    orders = []
    real = sampler.batch
    sampler.batch = lambda step: orders.append([t.source for t in real(step).tasks]) or real(step)
    ours = [m.values for m in validate_streams(learner, sampler, 4)]
    assert orders == [[0, 1], [1, 0], [0, 1], [1, 0]]
    again = [m.values for m in validate_streams(learner, sampler, 4)]
    assert all(torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in zip(ours, again, strict=True))
    orders.clear()
    validate_streams(learner, sampler, 4, one_order=True)
    assert orders == [[0, 1]] * 4


def weights(folder: Path) -> dict[str, torch.Tensor]:
    tensors, _ = read_tensors(folder / "last.safetensors", kind="checkpoint")
    return {n: t for n, t in tensors.items() if n.startswith("model.")}


def test_validating_leaves_the_learner_and_the_generator_alone(tmp_path: Path) -> None:
    recipe = tiny(steps=3)
    train(recipe, tmp_path / "once")
    often = tiny(steps=3, validation=Validation(every=1, batches=1))
    train(often, tmp_path / "often")
    a, b = (weights(tmp_path / name) for name in ("once", "often"))
    assert a.keys() == b.keys()
    assert all(torch.equal(a[n], b[n]) for n in a)


def test_split_validation_uses_training_images_of_the_target() -> None:
    try:
        load("mnist", "train", size=16)
    except DataError as missing:
        pytest.skip(str(missing))
    torch.set_num_threads(1)
    matrices = validate_split(Learner(LEARNER).eval(), "mnist", tiny())
    assert len(matrices) == SPLIT_RUNS
    assert matrices[0].tasks == 5
    assert all(0 <= m.average() <= 1 for m in matrices)


def test_training_and_validation_classes_are_disjoint_sets() -> None:
    train_sampler, val_sampler = samplers(tiny())
    assert not set(train_sampler.sets[0].classes) & set(val_sampler.sets[0].classes)
