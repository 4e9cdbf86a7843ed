"""The generic checks hold for our classifier, and each of them can fail."""

from dataclasses import replace

import numpy as np
import pytest

from autocl.estimator import checks
from autocl.estimator.classifier import ContinualClassifier
from small_learners import COLOUR, GRAY, RIDGE, small

VARIANTS = {
    "paper": GRAY,
    "ridge": RIDGE,
    "colour": COLOUR,
    "pre-norm": replace(GRAY, norm="pre"),
    "delayed": replace(GRAY, labels="delayed"),
    "delta": replace(GRAY, mixer="delta"),
    "lstm": replace(GRAY, mixer="lstm"),
}


def stream(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (11, 12, 12), np.uint8), np.array([4, 1, 1, 3, 4, 3, 1, 9, 9, 4, 3])


@pytest.mark.parametrize("check", checks.CHECKS, ids=lambda c: c.__name__)
@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_passes_bit_for_bit(name, check):
    learner = small(VARIANTS[name])
    check(lambda: ContinualClassifier(learner), *stream())


@pytest.mark.parametrize("check", checks.CHECKS, ids=lambda c: c.__name__)
def test_an_ensemble_passes_too(check):
    learner = small(replace(RIDGE, n_classes=2))
    if check is checks.check_state_is_constant:
        pytest.skip("an ensemble grows by one state for every n_classes new classes")
    check(lambda: ContinualClassifier(learner, overflow="ensemble"), *stream())


def test_check_continual_runs_them_all():
    learner = small()
    checks.check_continual(lambda: ContinualClassifier(learner), *stream())


class Peeking(ContinualClassifier):
    """Learns from questions, as nothing should."""

    def predict_proba(self, X):
        shares = super().predict_proba(X)
        self.partial_fit(X[:1], self.classes_[:1])
        return shares


class BatchNormed(ContinualClassifier):
    """Looks at the whole batch."""

    def predict_proba(self, X):
        return super().predict_proba(X - X.mean(0) / 2)


class Hoarding(ContinualClassifier):
    """Starts another state with every call."""

    def partial_fit(self, X, y, classes=None):
        super().partial_fit(X, y, classes)
        memory = self._memory
        self._memory = type(memory)(**{**vars(memory), "members": (*memory.members, memory.members[0])})
        return self


class Superstitious(ContinualClassifier):
    """Sees meaning in names."""

    def predict_proba(self, X):
        shares = super().predict_proba(X) + [len(str(label)) for label in self.classes_]
        return shares / shares.sum(1, keepdims=True)


class Closed(ContinualClassifier):
    """Knows only what came first."""

    def partial_fit(self, X, y, classes=None):
        if not self.__sklearn_is_fitted__():
            return super().partial_fit(X, y)
        return self


class Wholesale(ContinualClassifier):
    """Learns each call's demos in another order than they came."""

    def partial_fit(self, X, y, classes=None):
        return super().partial_fit(X[::-1], y[::-1])


class Forgetful(ContinualClassifier):
    """Loses a demo in every file."""

    def save(self, path):
        Forgetful(self.learner).fit(np.zeros((4, 12, 12)), [4, 1, 1, 3])._save(path)

    def _save(self, path):
        super().save(path)


@pytest.mark.parametrize(
    ("bad", "check"),
    [
        (Peeking, checks.check_prediction_is_pure),
        (BatchNormed, checks.check_batches_do_not_matter),
        (Wholesale, checks.check_cuts_do_not_matter),
        (Forgetful, checks.check_saved_goes_on),
        (Hoarding, checks.check_state_is_constant),
        (Superstitious, checks.check_names_do_not_matter),
        (Closed, checks.check_new_classes_are_welcome),
    ],
)
def test_each_check_finds_its_sinner(bad, check):
    learner = small(RIDGE)
    with pytest.raises(AssertionError):
        check(lambda: bad(learner), *stream())
