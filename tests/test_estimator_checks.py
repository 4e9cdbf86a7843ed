"""scikit-learn's own checks and tools on ContinualClassifier, and our generic checks, each of which can fail.

No check is excepted. A learner of images is checked with `image_shape="pad"`, because the checks feed vectors
of any length, and with the tag `poor_score`, because in blobs with two columns there is nothing to see. With
default options the learner of vectors takes over, and every check counts.
"""

import getpass
import pickle
import tempfile
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

from autocl.estimator import checks
from autocl.estimator.classifier import ContinualClassifier
from small_learners import COLOUR, GRAY, RIDGE, small

# Always the same place, because it is part of the tests' names, which parallel runs compare; another one for
# every checkout, whose files the others may not read.
CHECKOUT = sha256(__file__.encode()).hexdigest()[:8]
FOLDER = Path(tempfile.gettempdir()) / f"autocl-tests-{getpass.getuser()}-{CHECKOUT}"
LEARNER = str(small(RIDGE).save_pretrained(FOLDER / "small.safetensors"))
# A path, not a Learner: scikit-learn compares arguments by joblib's hash, which differs for equal modules.


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([ContinualClassifier(LEARNER, image_shape="pad", prequential=False)])
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_checks_with_default_options():
    results = check_estimator(ContinualClassifier(), on_skip=None)
    needs_more = {"check_array_api_input", "check_classifier_data_not_an_array"}  # SCIPY_ARRAY_API, pandas
    assert {result["check_name"] for result in results if result["status"] != "passed"} <= needs_more
    assert sum(result["status"] == "passed" for result in results) >= 50


def test_vectors_of_the_default_learner_go_to_vectors(tmp_path):
    X, y = digits()
    default, named = (
        ContinualClassifier(*name).partial_fit(X[:30], y[:30]).partial_fit(X[30:], y[30:])
        for name in ((), ("vectors",))
    )
    assert np.array_equal(default.predict_proba(X), named.predict_proba(X))
    default.save(tmp_path / "rows.safetensors")
    loaded = ContinualClassifier.load(tmp_path / "rows.safetensors")
    assert np.array_equal(loaded.predict_proba(X), named.predict_proba(X))
    assert np.array_equal(pickle.loads(pickle.dumps(loaded)).predict_proba(X), named.predict_proba(X))
    as_images = ContinualClassifier(image_shape=(8, 8)).fit(X, y)
    images = X.reshape(-1, 8, 8)
    unfolded = ContinualClassifier().fit(images, y)
    assert np.array_equal(as_images.predict_proba(X), unfolded.predict_proba(images))


def digits(n: int = 60) -> tuple[np.ndarray, np.ndarray]:
    X, y = load_digits(n_class=4, return_X_y=True)
    return X[:n], y[:n]


def test_pipeline_and_cross_validation():
    X, y = digits()
    clf = ContinualClassifier(LEARNER, image_shape=(8, 8))
    pipeline = make_pipeline(FunctionTransformer(lambda X: X / 16), clf)
    assert cross_val_score(pipeline, X, y, cv=3).shape == (3,)
    assert set(cross_val_predict(clf, X, y, cv=2)) <= set(y)


def test_images_and_lists_go_through_cross_validation():
    X, y = digits(30)
    images = X.reshape(-1, 8, 8)
    scores = cross_val_score(ContinualClassifier(LEARNER), images, y, cv=2)
    assert np.array_equal(cross_val_score(ContinualClassifier(LEARNER), list(images), y, cv=2), scores)


def test_grid_search_over_learners():
    X, y = digits(30)
    other = str(small(RIDGE, seed=1).save_pretrained(FOLDER / "other.safetensors"))
    clf = ContinualClassifier(image_shape=(8, 8))
    search = GridSearchCV(clf, {"learner": [LEARNER, other]}, cv=2).fit(X, y)
    assert search.best_params_["learner"] in (LEARNER, other)
    assert search.best_estimator_.n_seen_ == 30


def test_clone_is_unfitted_and_pickle_is_not():
    X, y = digits(10)
    clf = ContinualClassifier(small(RIDGE), image_shape=(8, 8)).fit(X, y)
    assert not clone(clf).__sklearn_is_fitted__()
    copy = pickle.loads(pickle.dumps(clf))
    assert np.array_equal(copy.predict_proba(X), clf.predict_proba(X))
    assert copy.partial_fit(X[:1], y[:1]).n_seen_ == 11
    assert clf.n_seen_ == 10


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
