"""Classes that come, go and come back, while all images slowly turn: `python examples/drift.py`.

Five digits, then the five others, then the first five again, which meanwhile lean by up to 40 degrees.
Every digit is predicted before its label is learned, as in daily use; nothing tells the classifier what is
going on. Beside it: the nearest mean of each class's pixels so far.
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from PIL import Image
from sklearn.datasets import load_digits

from autocl import ContinualClassifier

LENGTH, WINDOW = 150, 40
"""Demos of each of the three parts; demos over which accuracy is averaged."""


def stream(seed: int = 0) -> tuple[list[np.ndarray], list[int]]:
    """Images and labels in the order they come."""
    rng = np.random.default_rng(seed)
    X, y = load_digits(return_X_y=True)
    halves = [np.flatnonzero(y < 5), np.flatnonzero(y >= 5), np.flatnonzero(y < 5)]
    rows = np.concatenate([rng.choice(half, LENGTH, replace=False) for half in halves])
    images = []
    for time, row in enumerate(rows):
        image = Image.fromarray((X[row].reshape(8, 8) * 15.9).astype(np.uint8)).resize((32, 32))
        images.append(np.asarray(image.rotate(40 * time / (3 * LENGTH), resample=Image.Resampling.BILINEAR)))
    return images, y[rows].tolist()


def main(out: Path) -> None:
    images, labels = stream()
    clf = ContinualClassifier("everyday", prequential=False)
    right: dict[str, list[bool]] = {"autocl": [], "class means of pixels": []}
    flat = np.stack(images).reshape(len(images), -1) / 255
    for i, (image, label) in enumerate(zip(images, labels, strict=True)):
        known, before = sorted(set(labels[:i])), np.array(labels[:i])
        if len(known) > 1 and label in known:  # what was never shown cannot be known
            right["autocl"].append(clf.predict([image])[0] == label)
            means = np.stack([flat[:i][before == c].mean(0) for c in known])
            nearest = known[np.linalg.norm(means - flat[i], axis=1).argmin()]
            right["class means of pixels"].append(nearest == label)
        clf.partial_fit([image], [label])

    figure = Figure(figsize=(8, 3.2), layout="constrained")
    ax = figure.subplots()
    for name, answers in right.items():
        print(f"{name}: {100 * np.mean(answers):.1f} % right before the label was known")
        smooth = np.convolve(answers, np.ones(WINDOW) / WINDOW, mode="valid")
        ax.plot(np.arange(len(smooth)) + WINDOW, 100 * smooth, label=name)
    for at, what in ((LENGTH, "five other digits"), (2 * LENGTH, "the first five again, leaning")):
        ax.axvline(at, color="0.6", linestyle=":")
        ax.annotate(what, (at + 4, 4), fontsize="small", color="0.3")
    ax.set(ylim=(0, 102), xlabel="demos", ylabel=f"right of the last {WINDOW} (%)")
    ax.legend(frameon=False, loc="lower left")
    figure.savefig(out, dpi=120)
    print(f"saved {out}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "drift.png"))
