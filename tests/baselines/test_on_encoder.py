"""Read-outs on a frozen encoder, and meta-learned baselines taken through streams."""

from dataclasses import replace

import pytest
import torch
from dot_images import dots
from tools.search import search
from tools.tune_oml import tuned

from autocl.baselines.base import get_method, method_names, needs_of
from autocl.baselines.embedding import Embedding
from autocl.baselines.incontext import InContext
from autocl.data.eval_streams import split_stream
from autocl.encoders import EncoderConfig, Identity
from autocl.errors import InputError
from autocl.learner import Learner, LearnerConfig, ReadoutLearnerConfig
from autocl.passage import run_streams
from autocl.readouts import ReadoutConfig

FROZEN = ["nearest-mean", "streaming-lda", "shrunk-lda", "ridge", "knn"]
META = {
    "prototypes": ReadoutConfig(kind="means"),
    "gemcl": ReadoutConfig(kind="normal-gamma"),
    "gemcl-map": ReadoutConfig(kind="normal-gamma-map"),
    "oml": ReadoutConfig(kind="online", hidden=32),
    "anml": ReadoutConfig(kind="online"),
}
SHAPE = {"channels": 1, "height": 8, "width": 8, "encoder": EncoderConfig(kind="identity")}


def pixels():
    return Embedding(Identity(n_features=64), channels=1)


def learner_of(readout, **changes):
    torch.manual_seed(0)
    return Learner(ReadoutLearnerConfig(readout=readout, **{**SHAPE, **changes})).eval()


def test__needs__says_who_stands_on_an_encoder():
    assert [name for name in method_names() if "encoder" in needs_of(name)] == sorted([*FROZEN, "ranpac"])


@pytest.mark.parametrize("name", FROZEN)
@pytest.mark.parametrize("diet", ["demos", "full"])
def test__frozen_features__are_learned_without_forgetting(name, diet, streams):
    taken = run_streams(get_method(name, embedding=pixels(), diet=diet), streams("class"))
    assert taken.matrix.average().min() > 0.9
    assert taken.cost.gradient_steps == 0
    assert taken.cost.examples == (
        24 if diet == "demos" else sum(t.train.shape[1] for t in streams()[0].tasks)
    )


@pytest.mark.parametrize("name", META)
def test__meta_learned__learn_streams_and_runs_do_not_mix(name, streams):
    encoder = replace(SHAPE["encoder"], gated=name == "anml")
    learner, runs = learner_of(META[name], encoder=encoder), streams("class", runs=3)
    together, alone = InContext(learner), InContext(learner)
    taken, again = run_streams(together, runs), run_streams(alone, runs[2:])
    task = runs[0].tasks[0]
    torch.testing.assert_close(
        together.predict(task.query_set, task.queries[0])[2:],
        alone.predict(task.query_set, task.queries[0]),
    )
    assert taken.cost == again.cost
    assert taken.cost.gradient_steps == (24 if name in ("oml", "anml") else 0)


def test__files__serve_as_options(tmp_path):
    learner = Learner(LearnerConfig(channels=1, height=16, width=16)).eval()
    file = learner.save_pretrained(tmp_path / "learner.safetensors")
    by_file, by_learner = (get_method("ridge", embedding=e) for e in (str(file), learner))
    assert by_file.settings() == by_learner.settings()


def test__a_frozen_encoder__keeps_its_mode_and_weights(streams):
    learner = Learner(LearnerConfig(channels=1, height=16, width=16))
    before = learner.fingerprint()
    images = dots("train", size=16)
    runs = [split_stream(images, dots("test", seed=1, size=16), scenario="class", shots=2, run=0)]
    method = get_method("nearest-mean", embedding=Embedding(learner.encoder, channels=1))
    run_streams(method, runs)
    assert learner.encoder.training
    assert learner.fingerprint() == before


def test__tuned__takes_the_best_of_the_grid_on_all_settings(streams):
    learner = learner_of(META["oml"])
    train, test = dots("train"), dots("test", seed=1)
    settings = {
        scenario: [
            split_stream(train, test, scenario=scenario, shots=4, run=r, part="validation") for r in range(2)
        ]
        for scenario in ("domain", "class")
    }
    found, trials = tuned(learner, settings, grid={"rate": (1e-6, 0.01), "iterations": (1, 3)})
    by_options = {
        tuple(t.options.values()): t.mean + u.mean
        for t in trials["domain"]
        for u in trials["class"]
        if t.options == u.options
    }
    chosen = found.config.readout
    assert (chosen.rate, chosen.iterations) == max(by_options, key=by_options.get)
    assert chosen.rate == 0.01
    assert {len(tried) for tried in trials.values()} == {4}
    assert trials["class"][0].mean > trials["class"][-1].mean
    assert run_streams(InContext(found), streams("class")).cost.gradient_steps == chosen.iterations * 24


def test__search__finds_the_better_option_on_validation_and_refuses_test_images(streams):
    train, test = dots("train"), dots("test", seed=1)
    runs = [split_stream(train, test, scenario="class", shots=4, run=r, part="validation") for r in range(2)]

    def adam(**options):
        return get_method("adam", hidden=(16,), diet="demos", **options)

    trials = search(adam, {"epochs": [1, 30], "lr": [1e-5, 1e-2]}, runs)
    assert len(trials) == 4
    assert trials[0].options == {"epochs": 30, "lr": 1e-2}
    assert trials[0].mean > trials[-1].mean
    with pytest.raises(InputError, match="no test image"):
        search(adam, {"epochs": [1]}, streams())


def test__embedding__is_the_learners_encoder_computed_once(streams):
    learner = Learner(LearnerConfig(channels=3, height=16, width=16))
    images = dots("train", size=16)
    embedding = Embedding.of(learner)
    index = torch.tensor([[3, 1], [3, 7]])
    first = embedding.take(images, index)
    assert learner.training
    expected = learner.eval().encode(images.take(index, channels=3))
    torch.testing.assert_close(first, expected.detach(), rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        for p in learner.encoder.parameters():
            p.zero_()
    assert torch.equal(embedding.take(images, index), first)


def test__embedding__makes_its_input_as_the_learner_says():
    images, index = dots("train", size=16), torch.tensor([3, 1, 7])
    for how in ("set", "image"):
        learner = Learner(LearnerConfig(channels=1, height=16, width=16, standardise=how)).eval()
        expected = learner.encode(images.take(index, standardise=how))
        torch.testing.assert_close(
            Embedding.of(learner).take(images, index), expected.detach(), rtol=1e-4, atol=1e-5
        )


def test__wrong_options_or_image_size__are_refused():
    with pytest.raises(InputError, match="stands on a learner's encoder: give one"):
        get_method("ridge")
    for name, wrong in (("streaming-lda", "shrinkage"), ("ridge", "penalty"), ("knn", "neighbours")):
        with pytest.raises(InputError, match=f"{wrong} must be"):
            get_method(name, embedding=pixels(), **{wrong: 0})
    embedding = Embedding.of(Learner(LearnerConfig(channels=1, height=32, width=32)))
    with pytest.raises(InputError, match="load the set in"):
        embedding.take(dots("train", size=16), torch.tensor([0]))
