"""Bit for bit: at the sizes that ship, over batch sizes and cuts, and across processes."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from autocl import Learner, LearnerConfig
from autocl.errors import FileError, InputError
from autocl.estimator.classifier import ContinualClassifier
from autocl.estimator.exact import encode, score_exact
from small_learners import GRAY, RIDGE, small

PAPER = LearnerConfig(n_classes=10, channels=1)
SHIPPED = {"paper": PAPER, "ridge": replace(PAPER, readout="ridge"), "colour": replace(PAPER, channels=3)}


def images(n: int, *, seed: int = 0, side: int = 28) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (n, side, side), np.uint8)


@pytest.mark.parametrize("name", SHIPPED)
def test_answers_do_not_depend_on_the_batch_at_full_size(name):
    clf = ContinualClassifier(small(SHIPPED[name])).fit(images(10), np.arange(10))
    x = images(70, seed=1)
    whole = clf.predict_proba(x)
    for size in (1, 2, 3, 5, 16, 17, 31, 32, 33, 64):
        parts = [clf.predict_proba(x[i : i + size]) for i in range(0, len(x), size)]
        assert np.array_equal(np.concatenate(parts), whole), f"batches of {size}"


@settings(max_examples=10, deadline=None)
@given(cuts=st.sets(st.integers(1, 39)), seed=st.integers(0, 99))
def test_cuts_do_not_matter_at_full_size(cuts, seed):
    learner = full_size()
    x, y = images(40, seed=seed), np.random.default_rng(seed).integers(0, 10, 40)
    whole, parts = ContinualClassifier(learner).fit(x, y), ContinualClassifier(learner)
    for lo, hi in zip([0, *sorted(cuts)], [*sorted(cuts), 40], strict=True):
        parts.partial_fit(x[lo:hi], y[lo:hi])
    assert parts.state_ == whole.state_
    assert (parts.report_.tested, parts.report_.prequential) == (
        whole.report_.tested,
        whole.report_.prequential,
    )


def full_size(known: list[Learner] = []) -> Learner:  # noqa: B006 (made once, shared by all examples)
    if not known:
        known.append(small(SHIPPED["ridge"]))
    return known[0]


CONTINUE = """
import sys, numpy as np
from autocl.estimator.classifier import ContinualClassifier
clf = ContinualClassifier.load(sys.argv[1])
x = np.random.default_rng(5).integers(0, 256, (7, 20, 20), np.uint8)
clf.partial_fit(x, [("a", 1), "new", 3, "new", 3, None, 2.5])
clf.save(sys.argv[2])
"""


def test_another_process_goes_on_where_this_one_stopped(tmp_path):
    learner = small(RIDGE).save_pretrained(tmp_path / "learner.safetensors")
    clf = ContinualClassifier(str(learner)).partial_fit(images(4, side=20), [3, ("a", 1), 3, None])
    clf.evaluate({"first": (images(4, side=20), [3, ("a", 1), 3, None])})
    clf.save(tmp_path / "before.safetensors")
    script = [sys.executable, "-c", CONTINUE, tmp_path / "before.safetensors", tmp_path / "after.safetensors"]
    subprocess.run(script, check=True)
    x = np.random.default_rng(5).integers(0, 256, (7, 20, 20), np.uint8)
    clf.partial_fit(x, [("a", 1), "new", 3, "new", 3, None, 2.5])
    there = ContinualClassifier.load(tmp_path / "after.safetensors")
    assert there.state_ == clf.state_
    assert there.report_.counts == clf.report_.counts
    assert str(there.report_) == str(clf.report_)
    assert np.array_equal(there.predict_proba(x), clf.predict_proba(x))


class TestFiles:
    def saved(self, path):
        clf = ContinualClassifier(small()).fit(images(3, side=16), ["a", "b", "c"])
        clf.save(path)
        return clf

    def test_a_learner_without_a_name_must_be_given_again(self, tmp_path):
        clf = self.saved(tmp_path / "c.safetensors")
        with pytest.raises(InputError, match="pass learner="):
            ContinualClassifier.load(tmp_path / "c.safetensors")
        again = ContinualClassifier.load(tmp_path / "c.safetensors", learner=clf.learner)
        assert again.state_ == clf.state_

    def test_another_learner_is_refused(self, tmp_path):
        self.saved(tmp_path / "c.safetensors")
        with pytest.raises(FileError, match="nothing to other weights"):
            ContinualClassifier.load(tmp_path / "c.safetensors", learner=small(seed=1))

    @pytest.mark.parametrize("keep", [0, 7, 100, 0.5, 0.99])
    def test_damaged_files_are_named(self, tmp_path, keep):
        path = tmp_path / "c.safetensors"
        clf = self.saved(path)
        whole = path.read_bytes()
        path.write_bytes(whole[: keep if isinstance(keep, int) else int(len(whole) * keep)])
        with pytest.raises(FileError, match=r"c\.safetensors"):
            ContinualClassifier.load(path, learner=clf.learner)

    def test_other_kinds_of_files_are_refused(self, tmp_path):
        learner = small()
        file = learner.save_pretrained(tmp_path / "learner.safetensors")
        with pytest.raises(FileError, match="expected an autocl classifier"):
            ContinualClassifier.load(file, learner=learner)

    def test_labels_that_no_file_can_hold_are_refused(self, tmp_path):
        with pytest.warns(UserWarning, match="frozenset cannot be saved"):
            clf = ContinualClassifier(small()).fit(images(1), [frozenset("ab")])
        with pytest.raises(InputError, match="cannot be saved"):
            clf.save(tmp_path / "c.safetensors")
        assert not (tmp_path / "c.safetensors").exists()

    def test_options_and_vectors_come_back(self, tmp_path):
        learner = small()
        options = {"image_shape": (4, 16), "overflow": "ensemble", "prequential": False}
        clf = ContinualClassifier(learner, **options).fit(np.random.default_rng(0).random((2, 64)), [0, 1])
        clf.save(tmp_path / "c.safetensors")
        again = ContinualClassifier.load(tmp_path / "c.safetensors", learner=learner)
        assert again.get_params() == clf.get_params()
        assert again.n_features_in_ == 64
        with pytest.raises(ValueError, match="expecting 64 features"):
            again.predict(np.zeros((1, 16)))


def test_the_state_of_the_papers_model_is_small_and_constant():
    clf = ContinualClassifier(small(PAPER), prequential=False).fit(images(1), [0])
    size = clf.state_.nbytes
    assert size <= 110_000
    assert clf.partial_fit(images(50), np.arange(50) % 10).state_.nbytes == size


def test_threads_of_torch_do_not_change_answers():
    x = images(40)
    shares = []
    before = torch.get_num_threads()
    for threads in (1, 2):
        torch.set_num_threads(threads)
        shares.append(ContinualClassifier(small(GRAY)).fit(x[:9], np.arange(9) % 3).predict_proba(x))
    torch.set_num_threads(before)
    np.testing.assert_allclose(shares[0], shares[1], rtol=0, atol=1e-5)  # rounding may differ, answers not


def test_nothing_that_is_kept_or_given_refuses_gradients():
    learner = small(RIDGE)
    clf = ContinualClassifier(learner).fit(images(4), [0, 1, 0, 1])
    memory = clf.snapshot()
    f = encode(learner, torch.zeros(3, 1, 16, 16))
    given_out = [f, memory.last_demo[0], score_exact(learner, memory, f), *clf.state_.tensors.values()]
    assert not any(t.is_inference() for t in given_out)
