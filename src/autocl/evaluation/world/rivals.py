"""Simple classifiers on the same features, as strong as a page of code allows: what a learner has to beat.

Every rival sees features of unit length. Those of constant size could learn demo by demo with a state that
does not grow with the stream; the others keep all demos (or a mean of each task) and train on them jointly.

Shape legend: B = draws of a cell, T = demos, M = tasks, Q = queries, F = features, N = classes, R = rank of
the demos.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

from autocl.evaluation.world.streams import Ints, Passage

Doubles = npt.NDArray[np.float64]

REVISION = 1
"""Raise it when a rival changes what it computes: older lines are then not used."""
SHRINKAGE = 0.5
MIN_VARIANCE = 1e-6
"""Least variance of LDA, when no class has two different demos; as in `autocl.readouts.means`."""
RIDGES = (0.3, 1.0)
LOGISTIC_C, SVM_C = 10.0, 10.0
"""Chosen on the validation world (`python -m benchmarks.rivals`)."""


class Problem:
    """One draw as the rivals see it. What several of them need is computed once.

    Args:
        passage: demos and queries.
        n_labels: N.
    """

    def __init__(self, passage: Passage, n_labels: int) -> None:
        self.x, self.q = unit(passage.x), unit(passage.queries)
        self.y, self.N = passage.y, n_labels
        self.task = np.searchsorted(passage.ends, np.arange(len(self.y)), side="right")

    @cached_property
    def gram(self) -> Doubles:
        """Demos with demos, [T, T]."""
        found: Doubles = self.x @ self.x.T
        return found

    @cached_property
    def cross(self) -> Doubles:
        """Queries with demos, [Q, T]."""
        found: Doubles = self.q @ self.x.T
        return found

    @cached_property
    def one_hot(self) -> Doubles:
        """Labels, [T, N]."""
        return np.eye(self.N)[self.y]

    @cached_property
    def span(self) -> tuple[Doubles, Doubles]:
        """Demos [T, R] and queries [Q, R] in coordinates of the space that the demos span.

        Classifiers whose weights are combinations of demos are the same there, and faster where F > T.
        """
        if self.x.shape[1] <= len(self.x):
            return self.x, self.q
        value, vector = np.linalg.eigh(self.gram)
        kept = value > 1e-10 * value[-1]
        length = np.sqrt(value[kept])
        return vector[:, kept] * length, self.cross @ (vector[:, kept] / length)


class Answers(NamedTuple):
    """Answers of a contestant to all B draws of a cell."""

    scores: Doubles
    """[B, Q, N]."""
    novelty: Doubles | None
    """Distance of each query from all demos, [B, Q]; None: not measured."""


@dataclass(frozen=True, kw_only=True)
class Rival:
    """One row of the table."""

    name: str
    answer: Callable[[Problem], Doubles]
    """Scores [Q, N]."""
    numbers: Callable[[int, int, int, int], int]
    """(N, F, T, M) -> how many numbers it keeps."""
    constant: bool
    """Whether they depend on neither T nor M."""
    told: bool = False
    """Whether it must be told where a task ends, which learners are not."""
    probabilities: bool = False
    """Whether a softmax of its scores is meant as probabilities."""
    novelty: Callable[[Problem], Doubles] | None = None
    """Distance of the queries from all demos, [Q]."""

    @property
    def fingerprint(self) -> str:
        """Number of the code: rivals have no weights."""
        return f"rival {REVISION}"

    def ask(self, passages: Sequence[Passage], n_labels: int) -> Answers:
        """Solve each draw of a cell."""
        problems = [Problem(passage, n_labels) for passage in passages]
        return Answers(
            np.stack([self.answer(p) for p in problems]),
            None if self.novelty is None else np.stack([self.novelty(p) for p in problems]),
        )

    def state_bytes(self, passage: Passage, n_labels: int) -> int:
        """Size of what it keeps of a stream, in numbers of four bytes."""
        T, F = passage.x.shape
        return 4 * self.numbers(n_labels, F, T, len(passage.ends))


def unit(x: npt.NDArray[np.floating]) -> Doubles:
    """Rows of length one; a row of zeros stays."""
    x = x.astype(np.float64)
    scaled: Doubles = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)
    return scaled


def class_means(p: Problem) -> Doubles:
    """Cosine to each class's mean."""
    scores: Doubles = p.q @ unit(_means(p.x, p.y, p.N)).T
    return scores


def task_means(p: Problem) -> Doubles:
    """Cosine to the nearest mean of a label, one for each task that showed it: needs the boundaries."""
    groups, member = np.unique(p.task * p.N + p.y, return_inverse=True)
    cosine = p.q @ unit(_means(p.x, member.astype(np.int64), len(groups))).T
    return _best_of_label(cosine, groups % p.N, p.N)


def shrunk_lda(p: Problem) -> Doubles:
    """Linear discriminant analysis, the covariance half-way to a multiple of the identity.

    The score of a class falls with the squared distance to its mean under that covariance.
    """
    x, q = p.span
    means = _means(x, p.y, p.N)
    inner = x - means[p.y]
    variance = max(float(np.square(inner).sum()) / (len(x) * p.x.shape[1]), MIN_VARIANCE)
    covariance = (1 - SHRINKAGE) * (inner.T @ inner) / len(x)
    covariance[np.diag_indices_from(covariance)] += SHRINKAGE * variance
    weights = np.linalg.solve(covariance, means.T).astype(np.float64)
    scores: Doubles = q @ weights - 0.5 * (means.T * weights).sum(0)
    return scores


def ridge(p: Problem, penalty: float) -> Doubles:
    """Regression of one-hot labels on features and a constant."""
    kernel = p.gram + 1
    kernel[np.diag_indices_from(kernel)] += penalty
    scores: Doubles = (p.cross + 1) @ np.linalg.solve(kernel, p.one_hot)
    return scores


def neighbours(p: Problem, k: int) -> Doubles:
    """The nearest demos vote, each with a weight of one over its distance."""
    if k == 1:
        return _best_of_label(p.cross, p.y, p.N)
    near = np.argsort(-p.cross, axis=1, kind="stable")[:, :k]
    distance = np.sqrt(np.maximum(2 - 2 * np.take_along_axis(p.cross, near, 1), 1e-12))
    scores = np.zeros((len(p.q), p.N))
    rows = np.repeat(np.arange(len(p.q)), near.shape[1])
    np.add.at(scores, (rows, p.y[near].ravel()), 1 / distance.ravel())
    return scores


def logistic(p: Problem, C: float) -> Doubles:
    """Logistic regression on all demos, the inverse of its penalty given."""
    x, q = p.span
    scores: Doubles = LogisticRegression(C=C, max_iter=200, tol=1e-3).fit(x, p.y).decision_function(q)
    # Of two labels scikit-learn gives one score, that of the second.
    return np.stack([np.zeros(len(q)), scores], axis=1) if scores.ndim == 1 else scores


def svm(p: Problem, C: float) -> Doubles:
    """Support vector machine with Gaussian kernel on all demos; its width as scikit-learn's "scale"."""
    gamma = 1 / (p.x.shape[1] * max(float(p.x.var()), 1e-12))
    model = SVC(C=C, kernel="precomputed").fit(np.exp(-gamma * (2 - 2 * p.gram)), p.y)
    scores: Doubles = model.decision_function(np.exp(-gamma * (2 - 2 * p.cross)))
    return np.stack([-scores, scores], axis=1) if scores.ndim == 1 else scores


def _means(x: Doubles, y: Ints, N: int) -> Doubles:
    """[N, F]; zero for a class without demos."""
    member = np.eye(N)[y]
    means: Doubles = member.T @ x / np.maximum(member.sum(0), 1)[:, None]
    return means


def _best_of_label(scores: Doubles, label: Ints, N: int) -> Doubles:
    """Columns [Q, …] that bear labels -> the largest of each label, [Q, N]."""
    best = np.full((len(scores), N), -np.inf)
    for column, n in enumerate(label):
        np.maximum(best[:, n], scores[:, column], out=best[:, n])
    return best


def _all_demos(N: int, F: int, T: int, M: int) -> int:
    return T * (F + 1)


RIVALS: tuple[Rival, ...] = (
    Rival(name="class means", answer=class_means, numbers=lambda N, F, T, M: N * (F + 1), constant=True,
          novelty=lambda p: -class_means(p).max(1)),
    Rival(name="shrunk LDA", answer=shrunk_lda, numbers=lambda N, F, T, M: N * (F + 1) + F * F,
          constant=True, probabilities=True, novelty=lambda p: -shrunk_lda(p).max(1)),
    *(Rival(name=f"ridge {penalty}", answer=partial(ridge, penalty=penalty),
            numbers=lambda N, F, T, M: (F + 1) * (F + 1 + N), constant=True) for penalty in RIDGES),
    Rival(name="mean per task and label", answer=task_means, numbers=lambda N, F, T, M: 2 * M * F,
          constant=False, told=True),
    Rival(name="1-NN", answer=partial(neighbours, k=1), numbers=_all_demos, constant=False,
          novelty=lambda p: -p.cross.max(1)),
    Rival(name="3-NN", answer=partial(neighbours, k=3), numbers=_all_demos, constant=False),
    Rival(name="logistic regression", answer=partial(logistic, C=LOGISTIC_C), numbers=_all_demos,
          constant=False, probabilities=True),
    Rival(name="SVM", answer=partial(svm, C=SVM_C), numbers=_all_demos, constant=False),
)  # fmt: skip
RIVAL_NAMES = tuple(rival.name for rival in RIVALS)
