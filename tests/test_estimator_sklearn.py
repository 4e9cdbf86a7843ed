"""scikit-learn's own checks and tools on ContinualClassifier.

No check is excepted. A learner of images is checked with `image_shape="pad"`, because the checks feed vectors
of any length, and with the tag `poor_score`, because in blobs with two columns there is nothing to see. With
default options the learner of vectors takes over, and every check counts.
"""

import getpass
import pickle
import tempfile
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

from autocl.estimator.classifier import ContinualClassifier
from small_learners import RIDGE, small

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
