"""What a visitor meets who draws a digit after the playground's tour: `python -m benchmarks.drawn`.

The tour is taught to a classifier as the page does it; then digits are asked about as the drawing board sends
them: strokes of a pen along hand-made outlines, slanted, squeezed and bent at random (how the tour's digits
are shown was chosen on these), and MNIST's test pictures (nothing was chosen on them). Printed are the share
of right answers and that of pictures called "none of these", which should be low for digits and high for the
letters A, E, M and X. `--plain` teaches scikit-learn's digits as they are.
"""

import argparse
import base64
import io

import numpy as np
import torch
from PIL import Image, ImageDraw

from autocl.data import load
from autocl.estimator.classifier import ContinualClassifier
from autocl.pictures import Pixels
from autocl.play import pictures
from autocl.play.pictures import EDGE, MARGIN, as_drawn

PEN = 20
"""Of page/index.html: width of the pen on a board of 336 pixels."""
NOVEL, SURE = 0.4, 0.7
"""Of page/answer.js: "none of these" is above this novelty and below this probability, as long as the visitor
has taught little."""
DRAWN = 30
"""Drawings of each digit or letter."""
OUTLINES = {
    "0": ["50,5 20,20 10,50 20,80 50,95 80,80 90,50 80,20 50,5"],
    "1": ["30,25 55,5 55,95", "50,5 50,95"],
    "2": ["15,30 25,10 50,5 75,12 82,30 70,50 15,95 85,95", "20,20 50,5 80,22 65,50 20,92 40,85 85,95"],
    "3": ["20,15 50,5 78,20 70,40 45,48 75,58 82,80 55,95 18,85", "20,8 80,8 45,42 78,60 75,85 45,96 18,85"],
    "4": ["60,5 12,65 88,65|65,35 65,95", "25,5 20,50 80,50|75,5 72,95"],
    "5": ["80,5 25,5 20,45 55,40 82,60 75,88 45,96 15,85", "25,5 20,45 55,40 82,60 75,90 15,85|25,5 80,5"],
    "6": ["70,8 35,30 18,65 30,92 60,95 80,75 65,55 35,58 20,72"],
    "7": ["15,8 85,8 40,95", "15,8 85,8 45,95|30,50 75,50"],
    "8": ["75,20 50,5 25,20 35,42 65,55 80,75 50,96 20,78 35,55 65,42 75,20"],
    "9": ["78,30 55,45 28,38 25,15 50,5 75,12 78,30 70,95", "75,30 50,45 25,30 40,6 68,8 76,30 60,75 35,95"],
    "A": ["10,95 50,5 90,95|28,60 72,60"],
    "E": ["80,5 20,5 20,95 80,95|20,50 65,50"],
    "M": ["10,95 15,5 50,60 85,5 90,95"],
    "X": ["15,5 85,95|85,5 15,95"],
}
"""By name, ways to draw it: points in percent of the height; | lifts the pen."""


def drawings(name: str, rng: np.random.Generator) -> list[Pixels]:
    """Pictures as the board sends them, [EDGE, EDGE]."""
    return [_drawn(OUTLINES[name][i % len(OUTLINES[name])], rng) for i in range(DRAWN)]


def _drawn(outline: str, rng: np.random.Generator) -> Pixels:
    strokes = [np.array([p.split(",") for p in s.split()], float) for s in outline.split("|")]
    turn, slant = np.deg2rad(rng.normal(0, 6)), rng.normal(0.1, 0.15)
    shape = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    shape = shape @ np.array([[rng.uniform(0.55, 0.95), -slant], [0, 1]])
    size, pen = rng.uniform(120, 300), rng.uniform(0.7, 1.4) * PEN
    curves = []
    for stroke in strokes:
        points = stroke + rng.normal(0, 3.5, stroke.shape)
        sharp = len(points) < 5
        curves.append((_round(points, sharp) / 100 - 0.5) @ shape.T * size)
    return picture(curves, pen)


def _round(points: np.ndarray, sharp: bool) -> np.ndarray:
    """A smooth curve near points [n, 2] (corners cut twice); sharp ones stay as they are."""
    for _ in range(0 if sharp else 2):
        a, b = points[:-1], points[1:]
        inner = np.stack([0.75 * a + 0.25 * b, 0.25 * a + 0.75 * b], 1).reshape(-1, 2)
        points = np.concatenate([points[:1], inner, points[-1:]])
    return points


def picture(curves: list[np.ndarray], pen: float) -> Pixels:
    """What page/pad.js makes of strokes: the ink cut out with a margin, EDGE pixels square."""
    every = np.concatenate(curves)
    low, high = every.min(0) - pen / 2, every.max(0) + pen / 2
    side = float((high - low).max()) * MARGIN
    large = 4 * EDGE
    scale = large / side
    image = Image.new("L", (large, large))
    draw = ImageDraw.Draw(image)
    r = pen * scale / 2
    for curve in curves:
        at = [tuple(p) for p in (curve - (low + high) / 2 + side / 2) * scale]
        draw.line(at, fill=255, width=round(2 * r), joint="curve")
        for x, y in at:
            draw.ellipse((x - r, y - r, x + r, y + r), fill=255)
    return np.asarray(image.resize((EDGE, EDGE), Image.Resampling.BOX))


def taught(learner: str) -> ContinualClassifier:
    """A classifier after the tour."""
    clf = ContinualClassifier(learner, prequential=False, overflow="ensemble")
    for task in pictures.tour_stream()["tasks"]:
        files = [io.BytesIO(base64.b64decode(e["image"].partition(",")[2])) for e in task["teach"]]
        clf.partial_fit([Image.open(file) for file in files], [e["label"] for e in task["teach"]])
    return clf


def mnist() -> dict[str, list[Pixels]]:
    """Test pictures of each digit, cut out and enlarged as the board does it."""
    images = load("mnist", "test")
    found = {}
    for c, name in enumerate(images.classes):
        rows = images.starts[c] + np.random.default_rng(c).permutation(images.counts[c])[:DRAWN]
        found[name] = [as_drawn(images.images[row, 0]) for row in rows]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--learner", default="everyday", help="a name in the zoo, or a file")
    parser.add_argument("--plain", action="store_true", help="teach the digits as they are")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.plain:
        pictures.as_drawn = lambda digit: digit
    clf = taught(arguments.learner)
    rng = np.random.default_rng(0)
    drawn = {name: drawings(name, rng) for name in OUTLINES}
    digits = {name: drawn[name] for name in drawn if name.isdigit()}
    letters = {name: drawn[name] for name in drawn if not name.isdigit()}
    for title, asked in (("drawn digits", digits), ("MNIST", mnist()), ("drawn letters", letters)):
        right, none = [], []
        for name, images in asked.items():
            x = clf.encode(images)
            right += (clf.predict(x) == name).tolist()
            none += ((clf.novelty(x) > NOVEL) & (clf.predict_proba(x).max(1) < SURE)).tolist()
        said = "" if title == "drawn letters" else f"{100 * np.mean(right):.1f} % right, "
        print(f'{title}: {said}{100 * np.mean(none):.1f} % "none of these", of {len(none)}')


if __name__ == "__main__":
    main()
