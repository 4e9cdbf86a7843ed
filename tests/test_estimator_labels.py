"""No two labels become one on their way in or out, and what cannot be saved is said when it is learned."""

import enum
import warnings
from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pytest

from autocl.errors import InputError
from autocl.estimator.classifier import ContinualClassifier
from autocl.estimator.labels import as_array, from_json, read_labels, to_json
from small_learners import small


def images(n: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (n, 16, 16), np.uint8)


@pytest.mark.parametrize(
    "labels",
    [
        [2**63 + 1, 2**63 + 2, 5],
        [2**63 + 1, -1],
        [2**53, 2**53 + 1, 0.0],
        [10**40, 10**40 + 1],
        ["a", "a\0"],
        [b"a", b"a\0"],
        [("a", np.int64(1)), ("a", 2)],
        [date(2024, 2, 29), date(2024, 3, 1)],
        [datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 2, tzinfo=UTC)],
        [None, "None", 0],
        ["\udc80", "\udc81"],
    ],
)
def test_labels_stay_apart_and_survive_a_file(labels, tmp_path):
    x = images(len(labels))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clf = ContinualClassifier(small()).fit(x, labels)
    assert set(clf.classes_.tolist()) == set(labels)
    assert len(clf.classes_) == len(labels)
    clf.save(tmp_path / "c.safetensors")
    again = ContinualClassifier.load(tmp_path / "c.safetensors", learner=clf.learner)
    assert again.snapshot().labels == clf.snapshot().labels
    assert [type(a) for a in again.snapshot().labels] == [type(a) for a in clf.snapshot().labels]
    assert again.predict(x).tolist() == clf.predict(x).tolist()


class Colour(enum.Enum):
    RED = 1


@pytest.mark.parametrize("label", [Colour.RED, Decimal(3), frozenset("a"), ("a", Colour.RED)])
def test_what_cannot_be_saved_is_said_when_it_is_learned(label):
    with pytest.warns(UserWarning, match="cannot be saved"):
        clf = ContinualClassifier(small()).fit(images(1), [label])
    assert clf.predict(images(1))[0] == label
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # once is enough
        clf.partial_fit(images(1), [label])


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([(float("nan"), 1)], "NaN"),
        ([(float("inf"), 1)], "infinity"),
        ([float("inf")], "infinity"),
        (["x" * 20_000], "length"),
        ([10**5000], "4,000 digits"),
        ([{}], "cannot be hashed"),
        ("a", "a list or an array"),
        (5, "a list or an array"),
        (iter([1]), "a list or an array"),
        (np.array(["2024-01-01"], "datetime64[ns]"), "astype"),
        (np.array([[1, 2]]), "1d array"),
    ],
)
def test_labels_that_mean_nothing_are_refused(y, message):
    with pytest.raises(InputError, match=message):
        read_labels(y)


def test_classes_are_checked_like_labels():
    with pytest.raises(InputError, match="a list or an array"):
        ContinualClassifier(small()).partial_fit(images(1), [0], classes=5)


def test_columns_of_a_table_are_labels():
    pandas = pytest.importorskip("pandas")
    assert read_labels(pandas.Series(["b", "a"])) == ["b", "a"]
    assert read_labels(pandas.Series([1, 2], index=[5, 7])) == [1, 2]
    with pytest.raises(InputError, match="label 1"):
        read_labels(pandas.array([1, pandas.NA], dtype="Int64"))


@pytest.mark.parametrize("value", [[], {}, {"tuple": 1}, {"bytes": "!"}, {"date": 3}, {"a": 1, "b": 2}])
def test_json_that_is_no_label_is_refused(value):
    with pytest.raises((TypeError, ValueError)):
        from_json(value)


def test_plain_types_have_plain_arrays():
    plain = ([True], [1], [1.5], ["a"], [1, 2.0], [None], [])
    assert [as_array(labels).dtype.kind for labels in plain] == list("bifUfOO")
    assert as_array([2**63]).dtype == np.uint64
    assert to_json(True) is True
