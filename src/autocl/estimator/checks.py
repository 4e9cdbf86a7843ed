"""Checks that define a continual learner, for any classifier with `partial_fit`.

They are to streams what scikit-learn's estimator checks are to tables. Each takes a function that makes a
fresh classifier, and a stream of at least eight demos of at least three classes; it raises AssertionError
with what was found.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Make = Callable[[], Any]

EXACT = 0.0
"""Default tolerance on probabilities: bit for bit."""


def check_prediction_is_pure(make: Make, X: Array, y: Array, *, atol: float = EXACT) -> None:
    """Asking changes nothing: neither the answers that follow nor what is learned next."""
    asked, silent = make().partial_fit(X[:4], y[:4]), make().partial_fit(X[:4], y[:4])
    first = asked.predict_proba(X)
    _close(asked.predict_proba(X), first, atol, "the same questions twice")
    asked.predict(X[::-1])
    asked.partial_fit(X[4:], y[4:])
    silent.partial_fit(X[4:], y[4:])
    _close(
        asked.predict_proba(X), silent.predict_proba(X), atol, "learning with and without questions before"
    )


def check_batches_do_not_matter(make: Make, X: Array, y: Array, *, atol: float = EXACT) -> None:
    """An answer does not depend on what else is asked in the same call."""
    clf = make().partial_fit(X, y)
    together = clf.predict_proba(X)
    for size in (1, 2, 3, 7):
        apart = np.concatenate([clf.predict_proba(X[i : i + size]) for i in range(0, len(X), size)])
        _close(apart, together, atol, f"questions {size} at a time")


def check_cuts_do_not_matter(make: Make, X: Array, y: Array, *, atol: float = EXACT) -> None:
    """partial_fit of a + b is partial_fit of a, then of b."""
    whole = make().partial_fit(X, y).predict_proba(X)
    for cut in (1, len(X) // 2, len(X) - 1):
        parts = make().partial_fit(X[:cut], y[:cut]).partial_fit(X[cut:], y[cut:])
        _close(parts.predict_proba(X), whole, atol, f"a stream cut after {cut} demos")
    one_by_one = make()
    for i in range(len(X)):
        one_by_one.partial_fit(X[i : i + 1], y[i : i + 1])
    _close(one_by_one.predict_proba(X), whole, atol, "a stream demo by demo")


def check_saved_goes_on(make: Make, X: Array, y: Array, *, atol: float = EXACT) -> None:
    """save, load and continue is continuing."""
    clf = make().partial_fit(X[:4], y[:4])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "classifier.safetensors"
        clf.save(path)
        # Only classes whose learner is found by name or path can be loaded without it.
        again = type(clf).load(path, learner=clf.learner)
    clf.partial_fit(X[4:], y[4:])
    again.partial_fit(X[4:], y[4:])
    _close(again.predict_proba(X), clf.predict_proba(X), atol, "a saved and loaded classifier")


def check_state_is_constant(make: Make, X: Array, y: Array, *, atol: float = EXACT) -> None:
    """The state does not grow with the stream."""
    clf = make().partial_fit(X[:1], y[:1])
    before = clf.state_.nbytes
    clf.partial_fit(X, y).partial_fit(X, y)
    assert clf.state_.nbytes == before, f"{before} bytes of state became {clf.state_.nbytes}"


def check_names_do_not_matter(make: Make, X: Array, y: Array, *, atol: float = EXACT) -> None:
    """Other names for the classes give the same answers under other names."""
    plain = make().partial_fit(X, y)
    # Backwards, so that the sorted order of the classes changes with the names.
    other = {label: f"class {len(plain.classes_) - i:04d}" for i, label in enumerate(plain.classes_.tolist())}
    renamed = make().partial_fit(X, [other[label] for label in np.asarray(y).tolist()])
    columns = [renamed.classes_.tolist().index(other[label]) for label in plain.classes_.tolist()]
    _close(renamed.predict_proba(X)[:, columns], plain.predict_proba(X), atol, "classes under other names")


def check_new_classes_are_welcome(make: Make, X: Array, y: Array, *, atol: float = EXACT) -> None:
    """A class may come at any time, and every class that came is known from then on."""
    clf = make()
    for i in range(len(X)):
        clf.partial_fit(X[i : i + 1], y[i : i + 1])
        known = set(clf.classes_.tolist())
        assert known == set(np.asarray(y)[: i + 1].tolist()), f"after {i + 1} demos the classes are {known}"
        shares = clf.predict_proba(X)
        assert shares.shape == (len(X), len(known)), f"probabilities have shape {shares.shape}"
        assert np.allclose(shares.sum(1), 1), "probabilities do not sum to one"


CHECKS: tuple[Callable[..., None], ...] = (
    check_prediction_is_pure,
    check_batches_do_not_matter,
    check_cuts_do_not_matter,
    check_saved_goes_on,
    check_state_is_constant,
    check_names_do_not_matter,
    check_new_classes_are_welcome,
)


def check_continual(make: Make, X: Array, y: Array, *, atol: float = EXACT) -> None:
    """All of the checks.

    Example:
        >>> from autocl import Learner, LearnerConfig
        >>> from autocl.estimator.classifier import ContinualClassifier
        >>> learner = Learner(LearnerConfig(n_classes=5, model_width=32, heads=2))
        >>> X = np.random.default_rng(0).random((8, 32, 32))
        >>> check_continual(lambda: ContinualClassifier(learner), X, np.arange(8) % 3)
    """
    for check in CHECKS:
        check(make, X, y, atol=atol)


def _close(found: Array, wanted: Array, atol: float, what: str) -> None:
    assert found.shape == wanted.shape, f"{what}: shape {found.shape} instead of {wanted.shape}"
    worst = float(np.abs(found - wanted).max())
    assert worst <= atol, f"{what}: probabilities differ by up to {worst:g}, allowed is {atol:g}"
