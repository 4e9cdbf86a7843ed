"""The classifier as a program uses it: one labelled image after the other, then questions."""

import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from sklearn.datasets import load_digits

from autocl.estimator.classifier import ContinualClassifier

DEMOS = 100


@dataclass(frozen=True, kw_only=True)
class Used:
    """Time, accuracy and size after use."""

    demos: int
    milliseconds: float
    """Processor time of a demo, the median."""
    accuracy: float
    """On all other digits."""
    asked: int
    kilobytes: float
    """Size of the file that holds what was learned."""


def use(learner: str) -> Used:
    """Learn digits one by one, as they come in scikit-learn's set, and ask about the rest."""
    X, y = load_digits(return_X_y=True)
    X = X.reshape(-1, 8, 8)
    clf = ContinualClassifier(learner, prequential=False)
    took = []
    for i in range(DEMOS):
        started = time.process_time()
        clf.partial_fit(X[i : i + 1], y[i : i + 1])
        took.append(time.process_time() - started)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "digits.safetensors"
        clf.save(file)
        size = file.stat().st_size
    return Used(
        demos=DEMOS, milliseconds=1000 * statistics.median(took), kilobytes=size / 1000,
        accuracy=clf.score(X[DEMOS:], y[DEMOS:]), asked=len(X) - DEMOS,
    )  # fmt: skip
