"""Invented characters, one after the other, from three drawings each: `python examples/drawings.py`.

A program draws the characters, so nothing is downloaded. After every new one the classifier is asked about
all of them so far. The picture shows the accuracy as there are more to choose from, and what was drawn.
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from autocl import ContinualClassifier
from autocl.data import load

CHARACTERS, SHOTS = 20, 3


def main(out: Path) -> None:
    drawn = load("glyphs", "test", classes=CHARACTERS)
    images = drawn.images[:, 0].reshape(CHARACTERS, -1, 32, 32)  # [character, drawing, 32, 32]
    clf = ContinualClassifier("everyday", prequential=False)
    accuracy = []
    for new in range(CHARACTERS):
        clf.partial_fit(images[new, :SHOTS], [f"character {new + 1}"] * SHOTS)
        asked = images[: new + 1, SHOTS:]
        labels = np.repeat([f"character {i + 1}" for i in range(new + 1)], asked.shape[1])
        accuracy.append(100 * clf.score(asked.reshape(-1, 32, 32), labels))
    print(f"{CHARACTERS} characters from {SHOTS} drawings each: {accuracy[-1]:.1f} % of the others are right")

    figure = Figure(figsize=(8, 3.4), layout="constrained")
    curve, sheet = figure.subplots(1, 2, width_ratios=(3, 2))
    curve.plot(range(1, CHARACTERS + 1), accuracy, marker="o")
    curve.set(ylim=(0, 102), xlabel="characters known", ylabel="accuracy on all of them (%)")
    sheet.imshow(np.block([list(images[5 * r : 5 * r + 5, 0]) for r in range(4)]), cmap="gray_r")
    sheet.set(title="one drawing of each", xticks=[], yticks=[])
    figure.savefig(out, dpi=120)
    print(f"saved {out}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "drawings.png"))
