"""Meta-training on a frozen backbone's features, and on a folder of one's own images."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tiny import COMMAND_LINE, LEARNER, lines, tiny

from autocl.cli.main import run_command
from autocl.data.augment import Augment
from autocl.data.imageset import FeatureSet
from autocl.encoders import EncoderConfig
from autocl.encoders.backbones import Backbone
from autocl.errors import DataError, InputError
from autocl.files import read_tensors
from autocl.learner import Learner
from autocl.recipes import get_recipe
from autocl.training import run as training_run
from autocl.training.recipe import Source
from autocl.training.run import load_sets
from autocl.training.trainer import train

F = 20


@pytest.fixture(autouse=True)
def _backbone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random projections of small pictures under the name "random"."""
    W = np.random.default_rng(0).normal(size=(64, F)).astype(np.float32) / 8

    def run(images: list) -> np.ndarray:
        small = np.stack(
            [np.asarray(i.convert("L").resize((8, 8)), np.float32).ravel() / 255 for i in images]
        )
        return small @ W

    backbone = Backbone(name="random", fingerprint="1" * 64, n_features=F, image_size=8, run=run)
    monkeypatch.setattr(training_run, "get_backbone", lambda name: backbone)
    monkeypatch.setenv("AUTOCL_CACHE", str(tmp_path / "cache"))


def on_features(**changes):
    learner = replace(LEARNER, channels=F, height=1, width=1, encoder=EncoderConfig(kind="identity"))
    return tiny(learner=learner, backbone="random", prototype=0.0, **changes)


def test_train__features__learns_and_the_file_names_the_backbone(tmp_path: Path) -> None:
    best = train(on_features(), tmp_path / "run")
    _, meta = read_tensors(best, kind="learner")
    assert meta["backbone"] == "random"
    learner = Learner.from_pretrained(best)
    assert learner.encode(torch.zeros(3, F, 1, 1)).shape == (3, F)
    again = train(on_features(), tmp_path / "again")
    assert all(torch.equal(a, b) for a, b in zip(
        learner.state_dict().values(), Learner.from_pretrained(again).state_dict().values(), strict=True
    ))  # fmt: skip


def test_samplers__features__are_of_the_sources_images() -> None:
    source = Source(name="glyphs", classes=24, images=6)
    train_sampler, val_sampler = training_run.samplers(on_features(sources=(source,)))
    for sampler in (train_sampler, val_sampler):
        (features,) = sampler.sets
        assert isinstance(features, FeatureSet)
        assert features.n_features == F
        assert set(features.counts) == {6}
    assert not set(train_sampler.sets[0].classes) & set(val_sampler.sets[0].classes)
    assert train_sampler.images(train_sampler.batch(0)).shape[1:] == (F, 1, 1)


def test_recipe__encoder_or_augmentation_behind_a_backbone__is_refused() -> None:
    with pytest.raises(InputError, match="its encoder is 'identity', and no source is augmented"):
        tiny(backbone="random")
    with pytest.raises(InputError, match="no source is augmented"):
        on_features(sources=(Source(name="glyphs", augment=Augment(flip=0.5)),))
    learner = replace(LEARNER, channels=7, height=1, width=1, encoder=EncoderConfig(kind="identity"))
    with pytest.raises(InputError, match=r"random gives 20 features: set learner\.channels"):
        training_run.samplers(replace(on_features(), learner=learner))


def test_paper_backbone__recipe__is_the_papers_learner_on_features() -> None:
    recipe = get_recipe("paper_backbone")
    c = recipe.learner
    assert (c.mixer, c.depth, c.heads, c.readout, c.encoder.kind) == ("srwm", 2, 16, "linear", "identity")
    assert (recipe.streams.tasks, recipe.streams.ways, recipe.streams.shots) == (5, 2, 15)
    assert recipe.streams.scenario == "class"
    assert recipe.objective.acl
    assert {s.name for s in recipe.sources} == {"omniglot", "mini_imagenet"}


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
