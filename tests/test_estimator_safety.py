"""Threads, forks, states that explode, files that lie: nothing is lost and nothing is silently wrong."""

import json
import os
import subprocess
import sys
import threading
from dataclasses import replace

import numpy as np
import pytest
import torch

from autocl import Learner
from autocl.errors import FileError, InputError, StateError
from autocl.estimator.classifier import ContinualClassifier
from autocl.files import read_tensors, write_tensors
from autocl.layers.srwm import SRWMLayer
from autocl.learner.state import LearnerState
from small_learners import GRAY, RIDGE, small


def images(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (n, 16, 16), np.uint8)


def fitted(**options) -> ContinualClassifier:
    return ContinualClassifier(small(RIDGE), **options).fit(images(6), [0, 1, 2, 0, 1, 2])


def test_threads_that_learn_at_once_lose_nothing():
    clf = ContinualClassifier(small(RIDGE))
    failed = []

    def learn(label: int) -> None:
        try:
            for i in range(20):
                clf.partial_fit(images(1, seed=i), [label])
                clf.evaluate({str(label): (images(1), [label])})
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=learn, args=(label,)) for label in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert clf.report_.counts == {0: 20, 1: 20, 2: 20}
    assert len(clf.report_.matrix) == 60


FORK = """
import os, sys, threading, numpy as np, torch
torch.set_num_threads(2)
from small_learners import GRAY, small
from dataclasses import replace
from autocl import ContinualClassifier, EncoderConfig
learner = small(replace(GRAY, height=32, width=32, encoder=EncoderConfig(width=32)))
x = np.random.default_rng(0).random((200, 32, 32))
clf = ContinualClassifier(learner, prequential=False).fit(x[:2], [0, 1])
before = clf.predict(x)
clf._writing().acquire()  # as if another thread were learning
child = os.fork()
if not child:
    same = (clf.predict(x) == before).mean() > 0.99
    clf.partial_fit(x[:1], [1])
    os._exit(0 if same and clf.n_seen_ == 3 else 1)
sys.exit(os.waitpid(child, 0)[1] != 0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_of_a_threaded_parent_does_not_hang():
    env = {**os.environ, "OMP_NUM_THREADS": "2", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", FORK], env=env, timeout=240, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


class TestExplodingStates:
    @pytest.mark.parametrize("bad", [float("nan"), float("inf")])
    def test_a_state_that_is_not_finite_is_never_put_in_place(self, bad, monkeypatch):
        clf = fitted()
        before = clf.snapshot()
        learn = Learner.learn_features

        def explode(self, f, y, state):
            new = learn(self, f, y, state)
            return LearnerState({n: t * bad if n.endswith("W") else t for n, t in new.tensors.items()})

        monkeypatch.setattr(Learner, "learn_features", explode)
        with pytest.raises(StateError, match="the memory before them stands"):
            clf.partial_fit(images(2), [0, "new"])
        assert clf.snapshot() is before

    def test_a_learner_that_diverges_says_so_and_keeps_what_it_knew(self):
        clf = fitted()
        learner = clf._learner
        before, state = clf.snapshot(), clf.state_
        x, y = images(40), [0, "new"] * 20
        with torch.no_grad():
            for layer in learner.layers:
                if isinstance(layer, SRWMLayer):
                    layer.out.weight *= 1e30  # the next layer's updates overflow
        with pytest.raises(StateError, match=r"the memory before them stands.*docs/limits.md"):
            clf.partial_fit(x, y)
        assert clf.snapshot() is before
        f = torch.full((1, 40, learner.encoder.n_features), 1e30)
        with torch.no_grad(), pytest.raises(StateError, match="keep the state before them"):
            learner.learn_features(f, torch.zeros(1, 40, dtype=torch.int64), state)
        assert state.finite

    def test_equations_without_a_solution_are_an_error_of_ours(self, monkeypatch):
        clf = fitted()
        memory = clf.snapshot()
        tensors = dict(memory.members[0].tensors)
        tensors["readout.A"] = -1e6 * torch.eye(tensors["readout.A"].shape[-1])[None]
        clf._memory = replace(memory, members=(LearnerState(tensors),))
        with pytest.raises(StateError, match="unusable"):
            clf.predict(images(1))

    def test_answers_that_are_not_finite_are_an_error(self, monkeypatch):
        clf = fitted()
        predict = Learner.predict_features
        monkeypatch.setattr(Learner, "predict_features", lambda *args: predict(*args) * torch.nan)
        for ask in (clf.predict, clf.predict_proba, clf.novelty):
            with pytest.raises(StateError, match="no longer finite"):
                ask(images(1))


class TestFilesThatLie:
    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"labels": ["a", "a", "b"]}, "repeat"),
            ({"labels": ["a", "b"]}, "2 labels, but counts"),
            ({"counts": [2, 2, -2]}, "counts"),
            ({"counts": [2, 2, "2"]}, r"counts\[2\] must be an integer"),
            ({"members": 10**7}, "10000000 states"),
            ({"members": 0}, "0 states"),
            ({"members": 2}, "lacks tensor"),
            ({"right": 9, "tested": 3}, "9 of 3"),
            ({"last": [0, 17]}, "belongs to no class"),
            ({"last": [3, 0]}, "belongs to no class"),
            ({"learned_at": {"p": 3}}, "probe set 'p'"),
            ({"labels": list(range(6)), "counts": [1] * 6}, "6 labels for 1 states of 5 outputs"),
            ({"form": None}, "form must be an object"),
            ({"form": {"form": {"images": 3}, "image_shape": None, "overflow": "error", "prequential": True}},
             "form.form.images must be a list"),
        ],
    )  # fmt: skip
    def test_numbers_that_cannot_be(self, tmp_path, changes, message):
        clf, path = fitted(), tmp_path / "c.safetensors"
        clf.save(path)
        tensors, meta = read_tensors(path, kind="classifier")
        kept = {**json.loads(meta["memory"]), **changes}
        write_tensors(path, tensors, {**meta, "memory": json.dumps(kept)})
        with pytest.raises(FileError, match=message):
            ContinualClassifier.load(path, learner=clf.learner)

    def test_a_state_with_nan_or_of_another_shape_is_refused(self, tmp_path):
        clf, path = fitted(), tmp_path / "s.safetensors"
        for change, message in ((lambda t: t * torch.nan, "NaN"), (lambda t: t[:, :1], "must be")):
            clf.state_.save(path, clf.learner)
            tensors, meta = read_tensors(path, kind="state")
            write_tensors(path, {**tensors, "0.W": change(tensors["0.W"])}, meta)
            with pytest.raises(FileError, match=message):
                LearnerState.load(path, clf.learner)

    @pytest.mark.parametrize(
        "changes",
        [{"depth": 10**5}, {"n_classes": 10**7}, {"model_width": 2**14}, {"height": 10**6, "width": 10**6}],
    )
    def test_a_small_file_cannot_ask_for_a_huge_learner(self, tmp_path, changes, monkeypatch):
        path = small(GRAY).save_pretrained(tmp_path / "l.safetensors")
        tensors, meta = read_tensors(path, kind="learner")
        config = {**json.loads(meta["config"]), **changes}
        write_tensors(path, tensors, {**meta, "config": json.dumps(config)})
        monkeypatch.setattr(Learner, "load_state_dict", lambda *_: pytest.fail("was built"))
        with pytest.raises(FileError, match=r"do not fit|must be|unknown tensor|lacks tensor"):
            Learner.from_pretrained(path)


class TestAsking:
    def test_topk_agrees_with_probabilities(self):
        clf = fitted()
        x = images(4, seed=1)
        labels, shares = clf.predict_topk(x, k=2)
        assert labels.shape == shares.shape == (4, 2)
        assert (labels[:, 0] == clf.predict(x)).all()
        assert np.array_equal(shares, -np.sort(-clf.predict_proba(x), axis=1)[:, :2])
        assert clf.predict_topk(x, k=99)[0].shape == (4, 3)
        with pytest.raises(InputError, match="k=0"):
            clf.predict_topk(x, k=0)

    def test_novelty_is_doubt_unless_the_learner_knows_better(self, monkeypatch):
        clf = fitted()
        x = images(3, seed=1)
        assert np.allclose(clf.novelty(x), 1 - clf.predict_proba(x).max(1))
        found = torch.tensor([[0.1, 0.5, 0.9]])
        monkeypatch.setattr(Learner, "novelty_features", lambda self, f, state: found, raising=False)
        assert np.allclose(clf.novelty(x), found)

    def test_score_checks_its_weights(self):
        for weights in ([1], [1, -1], [0, 0], ["a", 1], [np.nan, 1]):
            with pytest.raises(InputError, match="sample_weight"):
                fitted().score(images(2), [0, 1], sample_weight=weights)

    def test_weights_mean_nothing_to_learning_and_that_is_said(self):
        with pytest.raises(InputError, match="no meaning"):
            fitted().partial_fit(images(1), [0], sample_weight=[1])
        with pytest.raises(TypeError, match="unexpected arguments: speed"):
            fitted().fit(images(1), [0], speed=3)
        assert fitted().partial_fit(images(1), [0], sample_weight=None).n_seen_ == 7


class TestForgetting:
    def test_learners_that_mix_classes_refuse(self):
        with pytest.raises(InputError, match="cannot forget 1 exactly"):
            fitted().forget(1)
        with pytest.raises(InputError, match="'x' was never learned"):
            fitted().forget("x")

    def test_a_learner_that_can_forgets_exactly(self, monkeypatch, tmp_path):
        def forget(self, state, output):
            C = state.tensors["readout.C"]
            C = torch.cat([C[..., :output], C[..., output + 1 :], torch.zeros_like(C[..., :1])], -1)
            return LearnerState({**state.tensors, "readout.C": C})

        monkeypatch.setattr(Learner, "forget", forget, raising=False)
        clf = fitted()
        want = clf.state_.tensors["readout.C"][..., [0, 2, 1, 3, 4]].clone()
        want[..., 2] = 0
        clf.forget(1)
        assert clf.classes_.tolist() == [0, 2]
        assert clf.report_.counts == {0: 2, 2: 2}
        assert torch.equal(clf.state_.tensors["readout.C"], want)
        clf.save(tmp_path / "c.safetensors")
        assert ContinualClassifier.load(tmp_path / "c.safetensors", clf.learner).classes_.tolist() == [0, 2]
        assert clf.partial_fit(images(1), ["new"]).snapshot().labels == (0, 2, "new")
        assert clf.forget("new").snapshot().last_demo is None


class TestDevice:
    def test_a_device_that_is_not_there_is_an_error_of_ours(self):
        for device in ("nonsense", "meta", 3.5, *(() if torch.cuda.is_available() else ("cuda",))):
            with pytest.raises(InputError, match="cannot be used here"):
                ContinualClassifier(small(), device=device).fit(images(1), [0])

    def test_the_callers_learner_is_not_moved_and_answers_are_the_same(self):
        clf = fitted(device="cpu")
        assert clf._learner is not clf.learner
        assert np.array_equal(clf.predict_proba(images(2)), fitted().predict_proba(images(2)))


class TestInputs:
    @pytest.mark.parametrize(
        ("X", "message"),
        [
            ("cat.png", r"one str: pass a list"),
            (b"\x89PNG", r"one bytes: pass a list"),
            ([b"\x89PNG"], "decode them first"),
            (iter([]), "pass list"),
            (images(1)[0], r"pass X\[None\]"),
            (np.zeros((3, 64)), r"image_shape=\(8, 8\)"),
            (np.zeros((3, 768)), r"image_shape=\(16, 16, 3\)"),
            (np.zeros((3, 65)), r"image_shape=\(height, width\)"),
        ],
    )  # fmt: skip
    def test_what_is_no_list_of_images_gets_a_helpful_line(self, X, message):
        with pytest.raises(InputError, match=message):
            ContinualClassifier(small()).fit(X, [0] * 3)
        with pytest.raises(InputError, match=message):
            fitted().predict(X)

    def test_a_column_of_paths(self, tmp_path):
        pandas = pytest.importorskip("pandas")
        image = pytest.importorskip("PIL.Image")
        paths = [str(tmp_path / f"{i}.png") for i in range(3)]
        for path, x in zip(paths, images(3), strict=True):
            image.fromarray(x).save(path)
        table = pandas.DataFrame({"path": paths, "label": list("aba")}, index=[4, 5, 6])
        clf = ContinualClassifier(small()).fit(table["path"], table["label"])
        assert np.array_equal(clf.predict_proba(images(3)), clf.predict_proba(table["path"]))

    @pytest.mark.parametrize("shape", [(8,), (0, 4), "square", 8, (8.0, 8)])
    def test_shapes_that_are_none(self, shape):
        with pytest.raises(InputError, match="image_shape="):
            ContinualClassifier(small(), image_shape=shape).fit(np.zeros((1, 64)), [0])
