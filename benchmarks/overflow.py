"""What sharing classes among several states costs: `python -m benchmarks.overflow LEARNER`.

Unseen Omniglot characters, two new classes at a time. First the same classes in one state or, with the
learner's outputs cut down, in several. Then more classes than the learner has outputs. Nearest class mean on
the learner's own encoder stands beside, on the same images: it has no number of outputs to run out of.
"""

import argparse

import numpy as np
import torch

from autocl import Learner
from autocl.data import load
from autocl.data.imageset import ImageSet
from autocl.estimator.classifier import ContinualClassifier
from autocl.estimator.exact import encode
from autocl.estimator.preprocess import arrays_to_input
from autocl.learner.find import find_learner

SHOTS = 5


def draw(images: ImageSet, classes: int, run: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Demos and their labels, two classes at a time and mixed within a pair; queries and theirs."""
    rng = np.random.default_rng(run)
    chosen = rng.permutation(images.n_classes)[:classes]
    rows = np.stack([rng.permutation(np.arange(images.starts[c], images.starts[c + 1])) for c in chosen])
    demos, y = [], []
    for first in range(0, classes, 2):
        pair = np.arange(first, min(first + 2, classes))
        turn = rng.permutation(len(pair) * SHOTS)
        demos.append(rows[pair, :SHOTS].reshape(-1)[turn])
        y.append(np.repeat(pair, SHOTS)[turn])
    asked = rows[:, SHOTS:]
    pixels = images.images[:, 0]
    return pixels[np.concatenate(demos)], np.concatenate(y), pixels[asked.reshape(-1)], np.repeat(
        np.arange(classes), asked.shape[1]
    )  # fmt: skip


def nearest_mean(
    learner: Learner, x: np.ndarray, y: np.ndarray, asked: np.ndarray, truth: np.ndarray
) -> float:
    f = encode(learner, arrays_to_input(x, learner.config)).numpy()
    q = encode(learner, arrays_to_input(asked, learner.config)).numpy()
    means = np.stack([f[y == c].mean(0) for c in range(y.max() + 1)])
    distance = ((q[:, None] - means) ** 2).sum(-1)
    return float((distance.argmin(1) == truth).mean())


def score(learner: Learner, data: tuple[np.ndarray, ...]) -> float:
    x, y, asked, truth = data
    clf = ContinualClassifier(learner, overflow="ensemble", prequential=False).fit(x, y)
    return clf.score(asked, truth)


def show(title: str, columns: dict[str, list[float]]) -> None:
    cells = ", ".join(f"{name} {100 * np.mean(v):.1f} ± {100 * np.std(v):.1f}" for name, v in columns.items())
    print(f"{title}: {cells} %", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("learner", help="a name in the zoo, or a file")
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    name = arguments.learner
    learner = find_learner(name)
    images, N = load("omniglot", "test", size=learner.config.height), learner.config.n_classes
    print(f"{name}: {N} outputs; {SHOTS} shots, {arguments.runs} runs, unseen Omniglot characters")
    runs = range(arguments.runs)
    for members in (2, 5):
        part = learner.with_classes(N // members).eval()
        data = [draw(images, N // members * members, run) for run in runs]
        columns = {
            "one state": [score(learner, d) for d in data],
            f"{members} states of {N // members} outputs": [score(part, d) for d in data],
            "nearest mean": [nearest_mean(learner, *d) for d in data],
        }
        show(f"{N // members * members} classes", columns)
    for factor in (2, 5):
        data = [draw(images, factor * N, run) for run in runs]
        columns = {
            f"{factor} states": [score(learner, d) for d in data],
            "nearest mean": [nearest_mean(learner, *d) for d in data],
        }
        show(f"{factor * N} classes", columns)


if __name__ == "__main__":
    main()
