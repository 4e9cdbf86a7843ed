"""Golden predictions: what every shipped learner answers on a small stream of drawn glyphs, in float64.

python tests/test_golden.py [NAME ...] writes the files of these learners anew; default: all.
"""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import pad

from autocl import zoo
from autocl.data import load
from autocl.learner import Learner
from autocl.learner.find import find_learner

FOLDER = Path(__file__).parent / "golden"
CLASSES, SHOTS, QUERIES = 10, 3, 2
TOLERANCE = 1e-9
"""Of logits up to about 60, which rounding in float64 changes by less than 1e-11."""


def logits_of(learner: Learner) -> torch.Tensor:
    """Logits [20, N] of queries after ten classes that share the learner's outputs in turn."""
    glyphs = load("glyphs", "val", classes=CLASSES)
    first = torch.from_numpy(glyphs.starts[:-1])
    demos = (first[:, None] + torch.arange(SHOTS)).flatten()
    labels = torch.arange(CLASSES).repeat_interleave(SHOTS) % learner.config.n_classes
    order = torch.randperm(len(demos), generator=torch.Generator().manual_seed(0))
    queries = (first[:, None] + SHOTS + torch.arange(QUERIES)).flatten()
    channels = 1 if learner.takes_vectors else learner.config.channels
    x, q = (glyphs.take(rows, channels=channels).double()[None] for rows in (demos[order], queries))
    if learner.takes_vectors:
        length = x[0, 0].numel() if learner.any_length else learner.encoder.n_features
        x, q = (pad(t.flatten(2), (0, length - x[0, 0].numel()))[..., None, None] for t in (x, q))
        learner = learner.with_features(length)
    learner = learner.double()
    with torch.no_grad():
        return learner.predict(q, learner.learn(x, labels[order][None], learner.initial_state()))[0]


@pytest.mark.parametrize("name", zoo.names())
def test_a_shipped_learner_answers_as_it_did(name: str) -> None:
    golden = np.array(json.loads((FOLDER / f"{name}.json").read_text()))
    worst = float(np.abs(logits_of(find_learner(name)).numpy() - golden).max())
    assert worst <= TOLERANCE, (
        f"the shipped learner {name} answers differently: logits differ by up to {worst:g}. If its weights "
        f"were replaced on purpose, run python tests/test_golden.py {name} and say so in the change log; "
        "otherwise a change meant to be neutral is not"
    )


def test_every_golden_file_belongs_to_a_shipped_learner() -> None:
    assert {path.stem for path in FOLDER.glob("*.json")} == set(zoo.names())


if __name__ == "__main__":
    for name in sys.argv[1:] or zoo.names():
        rows = logits_of(find_learner(name)).tolist()
        (FOLDER / f"{name}.json").write_text(
            "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n", encoding="utf-8"
        )
