"""ContinualClassifier("vectors"): feature vectors of any length, any number of classes, at any time."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from autocl import ContinualClassifier
from autocl.errors import InputError

Vectors = npt.NDArray[np.float64]


def clusters(n: int, length: int, classes: int, noise: float = 1.0) -> tuple[Vectors, npt.NDArray[np.int64]]:
    """Class after class in turn; the same centres for the same length."""
    centre = np.random.default_rng(length).standard_normal((classes, length))
    y = np.arange(n) % classes
    return centre[y] + noise * np.random.default_rng(n).standard_normal((n, length)), y


@pytest.mark.parametrize("length", [20, 64, 256, 768, 3072])
def test_embeddings_of_the_usual_lengths_are_told_apart(length: int) -> None:
    X, y = clusters(60, length, 12, noise=0.7)
    Q, answers = clusters(240, length, 12, noise=0.7)
    clf = ContinualClassifier("vectors", prequential=False)
    for start in range(0, 60, 15):  # in calls of any size
        clf.partial_fit(X[start : start + 15], y[start : start + 15])
    assert clf.score(Q, answers) > 0.95
    assert clf.state_.nbytes < 3_200_000


def test_classes_beyond_any_fixed_number_of_outputs() -> None:
    X, y = clusters(400, 96, 150, noise=0.5)
    clf = ContinualClassifier("vectors", prequential=False).fit(X, y)
    assert len(clf.classes_) == 150
    assert clf.score(*clusters(300, 96, 150, noise=0.5)) > 0.9


def test_saved_and_loaded_it_goes_on_bit_for_bit(tmp_path: Path) -> None:
    X, y = clusters(40, 50, 4)
    clf = ContinualClassifier("vectors").fit(X[:20], y[:20])
    clf.save(tmp_path / "c.safetensors")
    again = ContinualClassifier.load(tmp_path / "c.safetensors").partial_fit(X[20:], y[20:])
    clf.partial_fit(X[20:], y[20:])
    assert np.array_equal(again.predict_proba(X), clf.predict_proba(X))


def test_a_forgotten_class_is_not_answered_and_the_others_are() -> None:
    X, y = clusters(60, 64, 4, noise=0.5)
    clf = ContinualClassifier("vectors", prequential=False).fit(X, y).forget(1)
    assert clf.classes_.tolist() == [0, 2, 3]
    assert np.array_equal(clf.predict(X[y != 1]), y[y != 1])


def test_what_is_unlike_everything_shown_is_more_novel() -> None:
    X, y = clusters(60, 64, 4, noise=0.5)
    clf = ContinualClassifier("vectors", prequential=False).fit(X, y)
    known, strange = clusters(40, 64, 4, noise=0.5)[0], np.random.default_rng(7).standard_normal((40, 64))
    assert np.median(clf.novelty(strange)) > np.quantile(clf.novelty(known), 0.95)


def test_another_length_is_refused() -> None:
    X, y = clusters(10, 30, 2)
    clf = ContinualClassifier("vectors").fit(X, y)
    with pytest.raises(InputError, match="30"):
        clf.partial_fit(X[:, :20], y)


def test_a_long_stream_costs_nothing() -> None:
    Q, answers = clusters(400, 40, 20, noise=1.5)
    X, y = clusters(4000, 40, 20, noise=1.5)
    clf = ContinualClassifier("vectors", prequential=False).partial_fit(X[:400], y[:400])
    early, size = clf.score(Q, answers), clf.state_.nbytes
    clf.partial_fit(X[400:], y[400:])
    assert clf.score(Q, answers) >= early - 0.01
    assert clf.state_.nbytes == size
