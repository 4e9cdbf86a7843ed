"""ContinualClassifier as a person uses it: labels of any kind, memory, report, errors that change nothing."""

import threading
from dataclasses import replace

import numpy as np
import pytest
import torch

from autocl.errors import AutoclError, FileError, InputError
from autocl.estimator.base import UnfittedError
from autocl.estimator.classifier import ContinualClassifier
from autocl.estimator.exact import encode
from autocl.estimator.preprocess import arrays_to_input
from small_learners import GRAY, RIDGE, small


def images(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (n, 16, 16), np.uint8)


def fitted(**options) -> ContinualClassifier:
    return ContinualClassifier(small(RIDGE), **options).fit(images(6), [0, 1, 2, 0, 1, 2])


def test_it_learns_to_tell_very_different_images_apart():
    # Ridge regression on random features suffices for stripes across against stripes along.
    rng = np.random.default_rng(0)
    across = np.tile(np.arange(16) % 4 < 2, (20, 16, 1)) * 200 + rng.integers(0, 40, (20, 16, 16))
    along = np.tile((np.arange(16) % 4 < 2)[:, None], (20, 1, 16)) * 200 + rng.integers(0, 40, (20, 16, 16))
    clf = ContinualClassifier(small(RIDGE))
    clf.partial_fit(across[:10], ["across"] * 10).partial_fit(along[:10], ["along"] * 10)
    assert clf.score(np.concatenate([across[10:], along[10:]]), ["across"] * 10 + ["along"] * 10) > 0.9


class TestLabels:
    def test_any_hashable_will_do_and_comes_back(self):
        labels = ["cat", 3, (1, "x"), None, 2.5]
        clf = ContinualClassifier(small()).partial_fit(images(5), np.array([*labels, 0], object)[:5])
        assert list(clf.classes_) == labels  # not sortable: in the order of appearance
        assert set(clf.predict(images(9))) <= set(labels)

    def test_tuples_in_a_list_are_labels_not_rows(self):
        clf = ContinualClassifier(small()).fit(images(2), [("a", 1), ("b", 2)])
        assert clf.classes_.tolist() == [("a", 1), ("b", 2)]

    def test_sortable_labels_are_sorted_and_columns_follow(self):
        clf = ContinualClassifier(small(RIDGE)).fit(images(3), ["c", "a", "b"])
        assert clf.classes_.tolist() == ["a", "b", "c"]
        x = images(4, seed=1)
        assert (clf.classes_[clf.predict_proba(x).argmax(1)] == clf.predict(x)).all()
        assert (clf.decision_function(x).argmax(1) == clf.predict_proba(x).argmax(1)).all()

    def test_announced_classes_have_probability_zero_until_they_come(self):
        clf = ContinualClassifier(small()).partial_fit(images(2), [1, 2], classes=[1, 2, 3])
        assert clf.classes_.tolist() == [1, 2, 3]
        assert (clf.predict_proba(images(3))[:, 2] == 0).all()

    def test_mixed_lists_keep_their_types(self):
        clf = ContinualClassifier(small()).partial_fit(images(3), [0, "0", np.str_("a")])
        assert clf.classes_.tolist() == [0, "0", "a"]

    def test_lists_in_place_of_labels_are_refused(self):
        with pytest.raises(ValueError):
            ContinualClassifier(small()).fit(images(2), [[1, 2], [3, 4]])


class TestErrorsChangeNothing:
    @pytest.mark.parametrize(
        ("X", "y", "message"),
        [
            (images(2), [0], "inconsistent numbers of samples"),
            (images(2), [0, 0.5], "Unknown label type"),
            (images(2), None, "y to be passed"),
            (images(2), ["a", float("nan")], "label 1 is nan"),
            (np.full((1, 16, 16), np.nan), [0], "NaN"),
            (images(2)[:, :8], [0, 1], "8×16 came after images of 16×16"),
            (images(4), [5, 6, 7, 8], "7 classes, but this learner has 5 outputs"),
            (np.zeros((0, 16, 16)), [], "not empty"),
            (np.zeros((2, 16, 16, 3)), [0, 1], "16×16×3 came after images of 16×16"),
            ([np.zeros((16, 16, 5))], [0], "1 or 3 channels"),
            (np.zeros((2, 17)), [0, 1], "vectors of 17 values"),
            (["no/such/file.png"], [0], "no such file"),
        ],
    )  # fmt: skip
    def test_bad_demos(self, X, y, message):
        clf = fitted()
        before, known = clf.snapshot(), vars(clf).keys()
        with pytest.raises(ValueError if "no such" not in message else FileError, match=message):
            clf.partial_fit(X, y)
        assert clf.snapshot() is before
        assert vars(clf).keys() == known
        assert clf.partial_fit(images(1), [0]).n_seen_ == 7

    def test_unfitted(self):
        for ask in ("predict", "predict_proba", "decision_function", "score"):
            with pytest.raises(UnfittedError, match="partial_fit"):
                getattr(ContinualClassifier(small()), ask)(images(1), *([[0]] if ask == "score" else []))
        with pytest.raises(AutoclError):
            ContinualClassifier(small()).save("nowhere.safetensors")

    def test_unknown_labels_at_score_are_named(self):
        with pytest.raises(InputError, match="never learned: 'new'"):
            fitted().score(images(2), [0, "new"])

    def test_score_weighs_samples_and_takes_labels_of_mixed_types(self):
        clf = ContinualClassifier(small(RIDGE)).fit(images(2), ["a", 1])
        right = clf.predict(images(2)) == np.array(["a", 1], object)
        assert clf.score(images(2), ["a", 1]) == right.mean()
        assert clf.score(images(2), ["a", 1], sample_weight=[1, 0]) == right[0]

    def test_asking_about_vectors_after_images_changes_nothing(self):
        clf = fitted(image_shape=(16, 16))
        known = vars(clf).copy()
        flat = clf.predict_proba(images(2).reshape(2, -1))
        assert np.array_equal(flat, clf.predict_proba(images(2)))
        assert vars(clf) == known

    def test_overflow_must_be_one_of_two(self):
        with pytest.raises(InputError, match="choose one of error, ensemble"):
            ContinualClassifier(small(), overflow="drop").fit(images(1), [0])

    def test_a_learner_that_is_nothing_known(self):
        with pytest.raises(InputError, match="neither a name in the zoo"):
            ContinualClassifier("nowhere/best.safetensors").fit(images(1), [0])


class TestMemory:
    def test_rollback_undoes_classes_and_counts(self):
        clf = fitted()
        before, shares = clf.snapshot(), clf.predict_proba(images(3, seed=2))
        clf.partial_fit(images(2, seed=3), ["new", 0])
        assert len(clf.classes_) == 4
        clf.rollback(before)
        assert clf.n_seen_ == 6
        assert np.array_equal(clf.predict_proba(images(3, seed=2)), shares)

    def test_a_snapshot_of_another_learner_is_refused(self):
        other = ContinualClassifier(small(replace(RIDGE, model_width=32))).fit(images(1), [0])
        with pytest.raises(InputError, match="another learner"):
            fitted().rollback(other.snapshot())

    def test_reset_is_as_never_fitted(self):
        clf = fitted().reset()
        assert not clf.__sklearn_is_fitted__()
        assert not hasattr(clf, "classes_")

    def test_fit_forgets(self):
        clf = fitted().fit(images(2), ["x", "y"])
        fresh = ContinualClassifier(small(RIDGE)).fit(images(2), ["x", "y"])
        assert clf.classes_.tolist() == ["x", "y"]
        assert clf.state_ == fresh.state_

    def test_a_learner_in_training_mode_is_used_without_dropout_and_left_alone(self):
        learner = small().train()
        clf = ContinualClassifier(learner).fit(images(3), [0, 1, 2])
        assert learner.training
        assert np.array_equal(clf.predict_proba(images(3)), clf.predict_proba(images(3)))


class TestEnsemble:
    def test_classes_beyond_the_outputs_get_states_of_their_own(self):
        clf = ContinualClassifier(small(replace(RIDGE, n_classes=2)), overflow="ensemble")
        clf.fit(images(5), list("abcde"))
        assert clf.state_.batch == 3
        assert clf.predict_proba(images(4)).shape == (4, 5)

    def test_a_member_does_not_see_the_others_demos(self):
        learner = small(replace(RIDGE, n_classes=2))
        both = ContinualClassifier(learner, overflow="ensemble").fit(images(4), list("abcd"))
        first = ContinualClassifier(learner).fit(images(4)[:2], list("ab"))
        assert both.state_[:1] == first.state_

    def test_ridge_readouts_of_all_states_are_one_regression(self):
        wide = small(replace(RIDGE, n_classes=6))
        narrow = wide.with_classes(2).eval()
        X, y = images(12), list("abcdef") * 2
        shared = ContinualClassifier(narrow, overflow="ensemble").fit(X, y)
        alone = ContinualClassifier(wide).fit(X, y)
        f = encode(wide, arrays_to_input(X, wide.config))[None]
        wanted = wide.readout.read(f, alone.state_.part("readout"))[0]
        found = shared.decision_function(X)
        np.testing.assert_allclose(found, wanted.detach().numpy(), rtol=1e-4, atol=1e-4)

    def test_without_a_ridge_readout_the_highest_logit_wins(self):
        learner = small(replace(GRAY, n_classes=2))
        clf = ContinualClassifier(learner, overflow="ensemble").fit(images(4), list("abcd"))
        f = encode(learner, arrays_to_input(images(3), learner.config))[None]
        wanted = torch.cat([learner.predict_features(f, state)[0] for state in clf.state_], dim=1)
        assert (clf.predict(images(3)) == np.array(list("abcd"))[wanted.argmax(1)]).all()


class TestReport:
    def test_counts_and_prequential_accuracy(self):
        x = images(3)
        clf = ContinualClassifier(small(RIDGE)).partial_fit(x, ["a", "b", "c"])
        assert clf.report_.prequential is None  # nobody could have known
        for _ in range(3):
            answers = []
            for i in range(3):  # each asked right before it is learned, as the report claims to do
                answers.append(clf.predict(x[i : i + 1])[0] == "abc"[i])
                before = clf.report_
                clf.partial_fit(x[i : i + 1], ["abc"[i]])
                after = clf.report_
                right = after.prequential * after.tested - (before.prequential or 0) * before.tested
                assert round(right) == answers[-1]
        assert clf.report_.counts == {"a": 4, "b": 4, "c": 4}
        assert clf.report_.tested == 9

    def test_prequential_can_be_left_out(self):
        clf = fitted(prequential=False)
        assert clf.report_.prequential is None
        assert clf.state_ == fitted().state_

    def test_evaluations_make_the_matrix_and_backward_transfer(self):
        clf = ContinualClassifier(small(RIDGE))
        tasks = {f"task {t}": (images(6, seed=t), np.array([2 * t, 2 * t + 1] * 3)) for t in range(2)}
        first, second = tasks.items()
        clf.partial_fit(*first[1])
        a = clf.evaluate(dict([first]))
        assert clf.report_.backward_transfer is None
        clf.partial_fit(*second[1])
        b = clf.evaluate(tasks)
        report = clf.report_
        assert report.probes == ("task 0", "task 1")
        np.testing.assert_array_equal(report.matrix, [[a["task 0"], np.nan], [b["task 0"], b["task 1"]]])
        assert report.backward_transfer == pytest.approx(b["task 0"] - a["task 0"])
        assert b["task 1"] == clf.score(*second[1])
        assert "evaluation 2: task 0" in str(report)

    def test_a_probe_of_unknown_classes_is_forward_not_backward(self):
        clf = fitted()
        clf.evaluate({"later": (images(2), [7, 8])})
        clf.evaluate({"later": (images(2), [7, 8])})
        assert clf.report_.matrix.tolist() == [[0.0], [0.0]]
        assert clf.report_.backward_transfer is None

    def test_learning_rates_are_the_layers_own(self):
        clf = fitted()
        rates = clf.report_.learning_rates
        assert [set(layer) for layer in rates] == [{"y", "q", "k", "β"}] * 2
        assert all(0 < rate < 1 for layer in rates for rate in layer.values())
        lstm = ContinualClassifier(small(replace(GRAY, mixer="lstm"))).fit(images(1), [0])
        assert lstm.report_.learning_rates == ()


def test_threads_may_predict_while_one_learns():
    clf = fitted()
    known = {tuple(clf.predict_proba(images(1))[0])}
    snapshots, seen, wrong = [clf.snapshot()], [], []
    stop = threading.Event()

    def ask() -> None:
        while not stop.is_set():
            try:
                seen.append(tuple(clf.predict_proba(images(1))[0]))
            except Exception as error:
                wrong.append(error)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for i in range(20):
        clf.partial_fit(images(1, seed=i), [i % 4])
        snapshots.append(clf.snapshot())
    stop.set()
    for thread in threads:
        thread.join()
    for snapshot in snapshots:
        known.add(tuple(clf.rollback(snapshot).predict_proba(images(1))[0]))
    assert not wrong
    assert seen
    assert set(seen) <= known
