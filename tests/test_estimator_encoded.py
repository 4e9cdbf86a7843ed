"""Images encoded once stand for themselves in every method, for every classifier with the same learner."""

import numpy as np
import pytest

from autocl.errors import InputError
from autocl.estimator.classifier import ContinualClassifier
from small_learners import RIDGE, small

X = np.random.default_rng(0).integers(0, 256, (12, 16, 16), np.uint8)
Y = [f"class {i % 3}" for i in range(12)]


def test_encoded_images_give_the_same_bits_in_every_method():
    learner = small(RIDGE)
    plain, once = ContinualClassifier(learner), ContinualClassifier(learner)
    seen = once.encode(list(X))
    plain.partial_fit(list(X[:7]), Y[:7])
    for i in range(7):  # one by one, of a batch that was encoded together
        once.partial_fit(seen[i : i + 1], Y[i : i + 1])
    assert once.state_ == plain.state_
    for method in ("predict_proba", "decision_function", "novelty", "predict"):
        assert np.array_equal(getattr(once, method)(seen), getattr(plain, method)(list(X))), method


@pytest.mark.parametrize("n", [1, 2, 3, 17])
def test_novelty_does_not_depend_on_the_batch(n):
    rng = np.random.default_rng(1)
    known, asked = rng.normal(size=(40, 24)), rng.normal(size=(20, 24))
    clf = ContinualClassifier("vectors").fit(known, np.arange(40) % 4)
    parts = [clf.novelty(asked[i : i + n]) for i in range(0, 20, n)]
    assert np.array_equal(np.concatenate(parts), clf.novelty(asked))


def test_classifiers_that_start_from_encoded_images_share_the_weights():
    learner = small(RIDGE)
    seen = ContinualClassifier(learner).encode(list(X))
    first, second = ContinualClassifier(learner), ContinualClassifier(learner)
    first.partial_fit(seen[:3], Y[:3])
    second.partial_fit(seen[3:6], Y[3:6])
    assert first._learner is second._learner is seen.learner
    assert len(seen[2:5]) == 3


def test_encoded_images_of_another_learner_are_refused():
    seen = ContinualClassifier(small(RIDGE)).encode(list(X))
    other = small(RIDGE, seed=1)
    with pytest.raises(InputError, match="encode them with"):
        ContinualClassifier(other).partial_fit(seen, Y)
    fitted = ContinualClassifier(other).partial_fit(list(X), Y)
    with pytest.raises(InputError, match="other weights"):
        fitted.predict(seen)
    assert fitted.n_seen_ == 12
