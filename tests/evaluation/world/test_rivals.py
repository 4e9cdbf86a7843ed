"""Rivals against their definitions, computed another way."""

from functools import partial

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

from autocl.evaluation.world import rivals
from autocl.evaluation.world.rivals import RIVALS, Problem, unit
from autocl.evaluation.world.streams import Passage
from autocl.readouts import ReadoutConfig, build_readout


def passage(scenario: str = "class", F: int = 40, tasks: int = 3, shots: int = 4) -> Passage:
    """Well separated clusters, two a task."""
    rng = np.random.default_rng(0)
    centres = 2 * rng.standard_normal((2 * tasks, F))
    order = np.concatenate([rng.permutation(np.repeat([2 * t, 2 * t + 1], shots)) for t in range(tasks)])
    asked = np.repeat(np.arange(2 * tasks), 9)
    x, q = (centres[c] + rng.standard_normal((len(c), F)) for c in (order, asked))
    label = np.arange(2 * tasks) if scenario == "class" else np.arange(2 * tasks) % 2
    ends = np.arange(1, tasks + 1) * 2 * shots
    return Passage("toy", x.astype(np.float32), label[order], ends, q.astype(np.float32), label[asked])


def problem(scenario: str = "class", F: int = 40) -> tuple[Problem, np.ndarray]:
    p = passage(scenario, F)
    return Problem(p, int(p.y.max()) + 1), p.answers


@pytest.mark.parametrize("rival", RIVALS, ids=lambda r: r.name)
@pytest.mark.parametrize("scenario", ["class", "domain"])
@pytest.mark.parametrize("F", [8, 40])
def test_every_rival_finds_clusters_and_gives_a_score_to_each_label(rival, scenario, F) -> None:
    p, answers = problem(scenario, F)
    scores = rival.answer(p)
    assert scores.shape == (len(answers), p.N)
    chance = 1 / p.N
    assert (scores.argmax(1) == answers).mean() > chance + 0.15


@pytest.mark.parametrize("F", [8, 40])
@pytest.mark.parametrize(
    ("rival", "kind", "options"),
    [
        (rivals.shrunk_lda, "lda", {"shrinkage": 0.5}),
        (partial(rivals.ridge, penalty=0.3), "ridge", {"penalty": 0.3}),
        (partial(rivals.neighbours, k=3), "knn", {"neighbours": 3}),
    ],
)
def test_rivals_are_the_read_outs_of_the_same_name(F, rival, kind, options) -> None:
    p, _ = problem("class", F)
    readout = build_readout(ReadoutConfig(kind=kind, **options), n_features=F, n_classes=p.N).double()
    f, q = torch.from_numpy(p.x)[None], torch.from_numpy(p.q)[None]
    read = readout.read(q, readout.learn(f, torch.from_numpy(p.y)[None], readout.initial_state(1, p.N)))
    theirs, mine = read[0].detach().numpy(), rival(p)
    assert np.array_equal(theirs.argmax(1), mine.argmax(1))
    if kind == "lda":
        assert np.allclose(theirs, mine, rtol=1e-4, atol=1e-3)


def test_the_span_of_the_demos_is_enough_for_logistic_regression() -> None:
    p, _ = problem("class", 40)
    assert p.span[0].shape[1] <= 24
    whole = LogisticRegression(C=rivals.LOGISTIC_C, max_iter=200, tol=1e-3).fit(p.x, p.y)
    assert np.allclose(rivals.logistic(p, rivals.LOGISTIC_C), whole.decision_function(p.q), atol=0.1)


@pytest.mark.parametrize("scenario", ["class", "domain"])
def test_the_machine_is_that_of_scikit_learn(scenario) -> None:
    p, _ = problem(scenario)
    theirs = SVC(C=rivals.SVM_C, gamma="scale").fit(p.x, p.y).predict(p.q)
    assert np.array_equal(rivals.svm(p, rivals.SVM_C).argmax(1), theirs)


def test_a_mean_per_task_and_label_is_the_class_mean_where_labels_are_not_shared() -> None:
    p, answers = problem("class")
    assert np.allclose(rivals.task_means(p), rivals.class_means(p))
    shared, answers = problem("domain")
    right = (rivals.task_means(shared).argmax(1) == answers).mean()
    assert right > (rivals.class_means(shared).argmax(1) == answers).mean()


def test_one_shot_of_each_class_is_enough() -> None:
    p = passage(shots=1)
    for rival in RIVALS:
        assert np.isfinite(rival.answer(Problem(p, 6))).all(), rival.name


def test_novelty_is_higher_far_from_all_demos() -> None:
    p = passage()
    strange = p._replace(queries=np.random.default_rng(1).standard_normal(p.queries.shape).astype(np.float32))
    for rival in RIVALS:
        if rival.novelty is not None:
            far, near = rival.novelty(Problem(strange, 6)), rival.novelty(Problem(p, 6))
            assert np.median(far) > np.median(near), rival.name


def test_unit_leaves_zeros_alone() -> None:
    assert unit(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist() == [[0.6, 0.8], [0.0, 0.0]]
