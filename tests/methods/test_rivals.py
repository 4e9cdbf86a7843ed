"""Methods on a frozen encoder, and those that bring their own."""

import pytest
import torch
from dot_images import dots
from tools.tune_oml import tuned

from autocl.data.split import split_stream
from autocl.encoders import EncoderConfig, Identity
from autocl.errors import FileError, InputError
from autocl.learner.config import LearnerConfig
from autocl.learner.fast import Learner
from autocl.methods import get_method
from autocl.methods.embedding import Embedding
from autocl.methods.rival import Rival, RivalConfig
from autocl.methods.search import search
from autocl.passage import run_streams

FROZEN = ["nearest-mean", "streaming-lda", "ridge", "knn"]
TRAINED = {
    "prototypes": {"readout": "means"},
    "gemcl": {"readout": "normal-gamma"},
    "gemcl-map": {"readout": "normal-gamma-map"},
    "oml": {"readout": "online"},
    "anml": {"readout": "online", "gated": True, "hidden": 0},
}
SHAPE = {"channels": 1, "height": 8, "width": 8, "encoder": EncoderConfig(kind="identity")}


def pixels():
    return Embedding(Identity(n_features=64), channels=1)


@pytest.mark.parametrize("name", FROZEN)
@pytest.mark.parametrize("diet", ["demos", "full"])
def test__frozen_features__are_learned_without_forgetting(name, diet, streams):
    taken = run_streams(get_method(name, embedding=pixels(), diet=diet), streams("class"))
    assert taken.matrix.average().min() > 0.9
    assert taken.cost.gradient_steps == 0
    assert taken.cost.examples == (
        24 if diet == "demos" else sum(t.train.shape[1] for t in streams()[0].tasks)
    )


@pytest.mark.parametrize("name", TRAINED)
def test__meta_trained__learn_streams_and_runs_do_not_mix(name, streams):
    rival = Rival(RivalConfig(**TRAINED[name], **SHAPE))
    runs = streams("class", runs=3)
    together = get_method(name, rival=rival)
    taken = run_streams(together, runs)
    alone = get_method(name, rival=rival)
    again = run_streams(alone, runs[2:])
    task = runs[0].tasks[0]
    torch.testing.assert_close(
        together.predict(task.query_set, task.queries[0])[2:],
        alone.predict(task.query_set, task.queries[0]),
    )
    assert taken.cost == again.cost
    assert taken.cost.gradient_steps == (24 if name in ("oml", "anml") else 0)


def test__rival__comes_back_from_its_file(tmp_path):
    rival = Rival(RivalConfig(readout="normal-gamma", channels=1, height=16, width=16)).eval()
    rival.save(tmp_path / "rival.safetensors")
    again = Rival.load(tmp_path / "rival.safetensors")
    assert again.config == rival.config
    assert get_method("gemcl", rival=again).settings() == get_method("gemcl", rival=rival).settings()
    other = Rival(rival.config)
    assert other.fingerprint() != rival.fingerprint()
    x = torch.randn(2, 1, 16, 16)
    assert torch.equal(again.encoder(x), rival.encoder(x))
    with pytest.raises(FileError, match="no such file"):
        Rival.load(tmp_path / "nothing.safetensors")


def test__files__serve_as_options(tmp_path):
    learner = Learner(LearnerConfig(channels=1, height=16, width=16)).eval()
    file = learner.save_pretrained(tmp_path / "learner.safetensors")
    rival = Rival(RivalConfig(readout="online", channels=1, height=16, width=16))
    rival.save(tmp_path / "rival.safetensors")
    by_file, by_learner = (get_method("ridge", embedding=e) for e in (str(file), learner))
    assert by_file.settings() == by_learner.settings()
    oml = get_method("oml", rival=str(tmp_path / "rival.safetensors"), iterations=3)
    assert oml.settings() == {"diet": "demos", "rival": rival.fingerprint(), "rate": None, "iterations": 3}


def test__without_a_rival__the_shipped_one_is_used_or_the_command_named(monkeypatch, tmp_path):
    (tmp_path / "rivals").mkdir()
    monkeypatch.setattr("autocl.methods.meta_trained.files", lambda package: tmp_path)
    rival = Rival(RivalConfig(readout="means", **SHAPE))
    rival.save(tmp_path / "rivals" / "prototypes.safetensors")
    assert get_method("prototypes").settings()["rival"] == rival.fingerprint()
    with pytest.raises(InputError, match="autocl train gemcl --out rivals/gemcl"):
        get_method("gemcl")


def test__tuned__takes_the_best_of_the_grid_on_all_settings_and_says_so(tmp_path, streams):
    torch.manual_seed(0)
    rival = Rival(RivalConfig(readout="online", **SHAPE)).eval()
    train, test = dots("train"), dots("test", seed=1)
    settings = {
        scenario: [
            split_stream(train, test, scenario=scenario, shots=4, run=r, part="validation") for r in range(2)
        ]
        for scenario in ("domain", "class")
    }
    found, trials = tuned(rival, settings, grid={"rate": (1e-6, 0.01), "iterations": (1, 3)})
    by_options = {
        tuple(t.options.values()): t.mean + u.mean
        for t in trials["domain"]
        for u in trials["class"]
        if t.options == u.options
    }
    assert (found.config.rate, found.config.iterations) == max(by_options, key=by_options.get)
    assert found.config.rate == 0.01
    assert {len(tried) for tried in trials.values()} == {4}
    assert trials["class"][0].mean > trials["class"][-1].mean
    found.save(tmp_path / "oml-tuned.safetensors")
    method = get_method("oml-tuned", rival=tmp_path / "oml-tuned.safetensors")
    assert run_streams(method, streams("class")).cost.gradient_steps == found.config.iterations * 24
    with pytest.raises(InputError, match="tuned on a validation part"):
        get_method("oml-tuned", rival=rival)


def test__search__finds_the_better_option_on_validation_and_refuses_test_images(streams):
    train, test = dots("train"), dots("test", seed=1)
    runs = [split_stream(train, test, scenario="class", shots=4, run=r, part="validation") for r in range(2)]
    trials = search("adam", {"epochs": [1, 30], "lr": [1e-5, 1e-2]}, runs, hidden=(16,), diet="demos")
    assert len(trials) == 4
    assert trials[0].options == {"epochs": 30, "lr": 1e-2}
    assert trials[0].mean > trials[-1].mean
    with pytest.raises(InputError, match="no test image"):
        search("adam", {"epochs": [1]}, streams())


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


def test__wrong_rival_or_image_size__is_refused(streams):
    with pytest.raises(InputError, match="needs a rival with readout='online'"):
        get_method("oml", rival=Rival(RivalConfig(readout="means", **SHAPE)))
    with pytest.raises(InputError, match="unknown readout 'mean'"):
        RivalConfig(readout="mean")
    with pytest.raises(InputError, match="shrinkage"):
        get_method("streaming-lda", embedding=pixels(), shrinkage=0.0)
    with pytest.raises(InputError, match="penalty"):
        get_method("ridge", embedding=pixels(), penalty=0.0)
    with pytest.raises(InputError, match="neighbours"):
        get_method("knn", embedding=pixels(), neighbours=0)
    with pytest.raises(InputError, match="rate must be positive"):
        RivalConfig(readout="online", rate=0.0)
    with pytest.raises(InputError, match="iterations must be at least 1"):
        get_method("oml", rival=Rival(RivalConfig(readout="online", **SHAPE)), iterations=0)
    embedding = Embedding.of(Learner(LearnerConfig(channels=1, height=32, width=32)))
    with pytest.raises(InputError, match="load the set in"):
        embedding.take(dots("train", size=16), torch.tensor([0]))
