"""Golden predictions: what every shipped learner answers on a small stream of drawn glyphs, in float64.

python tests/test_golden.py [NAME ...] writes the lines of these learners anew; default: all.
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

FILE = Path(__file__).with_name("golden.jsonl")
"""One line for each shipped learner, sorted by name."""
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
        length = x[0, 0].numel() if learner.any_length else learner.config.channels
        x, q = (pad(t.flatten(2), (0, length - x[0, 0].numel()))[..., None, None] for t in (x, q))
        learner = learner.with_features(length)
    learner = learner.double()
    with torch.no_grad():
        return learner.predict(q, learner.learn(x, labels[order][None], learner.initial_state()))[0]


def read_golden() -> dict[str, list[list[float]]]:
    """Logits of each learner."""
    lines = map(json.loads, FILE.read_text(encoding="utf-8").splitlines())
    return {line["learner"]: line["logits"] for line in lines}


@pytest.mark.parametrize("name", zoo.names())
def test_a_shipped_learner_answers_as_it_did(name: str) -> None:
    golden = np.array(read_golden()[name])
    worst = float(np.abs(logits_of(find_learner(name)).numpy() - golden).max())
    assert worst <= TOLERANCE, (
        f"the shipped learner {name} answers differently: logits differ by up to {worst:g}. If its weights "
        f"were replaced on purpose, run python tests/test_golden.py {name} and say so in the change log; "
        "otherwise a change meant to be neutral is not"
    )


def test_golden_predictions_are_of_shipped_learners() -> None:
    assert list(read_golden()) == zoo.names()


if __name__ == "__main__":
    known = {name: logits for name, logits in read_golden().items() if name in zoo.names()}
    known |= {name: logits_of(find_learner(name)).tolist() for name in sys.argv[1:] or zoo.names()}
    lines = (json.dumps({"learner": name, "logits": known[name]}) for name in sorted(known))
    FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")
