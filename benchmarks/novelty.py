"""How well "none of these" is told: `python -m benchmarks.novelty [LEARNER …]`.

Half of the classes of a set are taught, 10 pictures each; then pictures of these and of the others are asked
about. AUROC: the chance that a picture of an unseen class is called newer than one of a taught class; 50 % is
a coin. Beside the classifier's own `novelty` stand one minus its highest probability, and the distance to
the nearest class mean on the same features. The default sets are for testing: nothing is chosen by them.
"""

import argparse

import numpy as np
import torch
from sklearn.metrics import roc_auc_score

from autocl.data import load
from autocl.data.imageset import ImageSet
from autocl.estimator.classifier import ContinualClassifier
from autocl.estimator.inputs import Encoded

SETS = ("digits", "omniglot", "mnist", "fashion_mnist", "cifar10")
TAUGHT, ASKED, MOST = 10, 10, 10
"""Pictures of each class to learn, and to ask about; classes that are taught at most."""


def draw(images: ImageSet, run: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Demos and labels; queries, and whether each is of a class that is not taught."""
    rng = np.random.default_rng(run)
    classes = rng.permutation(images.n_classes)[: 2 * MOST]
    half = len(classes) // 2
    rows = {c: images.starts[c] + rng.permutation(images.counts[c])[: TAUGHT + ASKED] for c in classes}
    known, new = classes[:half], classes[half:]
    demos = np.stack([rows[c][:TAUGHT] for c in known], 1)  # classes take turns
    asked = np.concatenate([rows[c][TAUGHT:] for c in classes])
    pixels = images.images.transpose(0, 2, 3, 1)
    labels = np.tile(np.arange(half), TAUGHT)
    is_new = np.concatenate([np.full(len(rows[c]) - TAUGHT, c in new) for c in classes])
    return pixels[demos.reshape(-1)], labels, pixels[asked], is_new


def from_means(seen: Encoded, labels: np.ndarray, asked: Encoded) -> np.ndarray:
    """Distance to the nearest class mean of unit features, [n]."""
    unit = [torch.nn.functional.normalize(e.features, dim=1).numpy() for e in (seen, asked)]
    means = np.stack([unit[0][labels == c].mean(0) for c in range(labels.max() + 1)])
    return np.sqrt(((unit[1][:, None] - means) ** 2).sum(-1)).min(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("learner", nargs="*", default=["everyday"], help="names in the zoo, or files")
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--split", default="test")
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(
        f"AUROC of novelty in %, unseen against taught classes; {TAUGHT} demos a class, {arguments.runs} runs"
    )
    for name in arguments.learner:
        encoder = ContinualClassifier(name, prequential=False, overflow="ensemble")
        for set_name in arguments.sets:
            images = load(set_name, arguments.split)
            columns: dict[str, list[float]] = {}
            for run in range(arguments.runs):
                x, y, queries, is_new = draw(images, run)
                seen, asked = encoder.encode(list(x)), encoder.encode(list(queries))
                clf = ContinualClassifier(name, prequential=False, overflow="ensemble").fit(seen, y)
                scores = {
                    "novelty": clf.novelty(asked),
                    "1 - highest probability": 1 - clf.predict_proba(asked).max(1),
                    "distance to nearest mean": from_means(seen, y, asked),
                }
                for column, score in scores.items():
                    columns.setdefault(column, []).append(100 * roc_auc_score(is_new, score))
            cells = ", ".join(f"{c} {np.mean(v):.1f} ± {np.std(v):.1f}" for c, v in columns.items())
            print(f"{name}, {set_name}: {cells}", flush=True)


if __name__ == "__main__":
    main()
