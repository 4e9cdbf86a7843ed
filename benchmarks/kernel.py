"""What a read-out of constant size gives away: `python -m benchmarks.kernel split-domain`.

Ridge regression with a Gaussian kernel on the features of a learner's encoder keeps every demo; random
cosines replace the kernel by sums whose size does not grow with the stream. Here both answer beside the
learner's own read-out, whose cosines are meta-learned: Split-MNIST over the 5,000 held-out *training* images,
15 shots, five sets of demos. No test image is looked at.
"""

import argparse
import math
from statistics import fmean

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.nn import functional as F

from autocl.data import ImageSet, Stream, load, split_stream
from autocl.data.stream_config import Scenario
from autocl.learner import Learner
from autocl.learner.find import find_learner
from autocl.readouts.ridge import orthogonal_normal

WIDTHS, KEYS, PENALTY = (1.0, 2.0, 4.0, 8.0), (256, 512, 1024), 0.3


def solve(keys: Tensor, queries: Tensor, targets: Tensor) -> Tensor:
    """Scores [Q, N] of ridge regression of targets [T, N] on keys [T, K], asked with queries [Q, K]."""
    ridge = PENALTY * torch.eye(keys.shape[1])
    return queries @ torch.linalg.solve(keys.T @ keys + ridge, keys.T @ targets)


def with_kernel(demos: Tensor, queries: Tensor, targets: Tensor, width: float) -> Tensor:
    """The same with the kernel 1 + exp(-width d²) of unit vectors in the place of products of keys."""
    own, asked = (1 + torch.exp(-width * torch.cdist(x, demos).square()) for x in (demos, queries))
    return asked @ torch.linalg.solve(own + PENALTY * torch.eye(len(demos)), targets)


def with_cosines(demos: Tensor, queries: Tensor, targets: Tensor, width: float, keys: int) -> Tensor:
    """The same with random cosines, and the constant, as keys."""
    waves = math.sqrt(2 * width) * orthogonal_normal(keys - 1, demos.shape[1])
    phases = 2 * math.pi * torch.rand(keys - 1)

    def key(x: Tensor) -> Tensor:
        k = math.sqrt(2 / (keys - 1)) * torch.cos(x @ waves.T + phases)
        return torch.cat([k, torch.ones(len(x), 1)], dim=1)

    return solve(key(demos), key(queries), targets)


@torch.no_grad()
def answers(learner: Learner, stream: Stream) -> dict[str, float]:
    """Percent right behind the last task, for each way to answer."""

    def encoded(parts: list[tuple[ImageSet, Tensor]]) -> Tensor:
        c = learner.config
        return torch.cat([learner.encode(images.take(rows, channels=c.channels)) for images, rows in parts])

    f = encoded([(t.sets[0], t.demos[0]) for t in stream.tasks])
    q = encoded([(t.sets[1], t.queries[0]) for t in stream.tasks])
    y = torch.cat([t.demo_labels[0] for t in stream.tasks])
    right = torch.cat([t.query_labels[0] for t in stream.tasks])
    scores: dict[str, Tensor] = {}
    if learner.readout is not None and learner.config.n_classes >= stream.n_outputs:
        state = learner.learn_features(f[None], y[None], learner.initial_state())
        scores["the learner"] = learner.predict_features(q[None], state)[0]
        scores["its read-out alone"] = learner.readout.read(q[None], state.part("readout"))[0]
    demos, queries, targets = F.normalize(f, dim=-1), F.normalize(q, dim=-1), F.one_hot(y).to(f.dtype)
    for width in WIDTHS:
        scores[f"kernel, width {width:g}"] = with_kernel(demos, queries, targets, width)
        for keys in KEYS:
            made = with_cosines(demos, queries, targets, width, keys)
            scores[f"{keys} random cosines, width {width:g}"] = made
    return {name: 100 * float((s.argmax(-1) == right).float().mean()) for name, s in scores.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("learner", help="a name in the zoo, a file, or the folder of a run")
    learner = find_learner(parser.parse_args().learner)
    torch.manual_seed(0)
    size = learner.config.height
    sets = load("mnist", "train", size=size), load("mnist", "test", size=size)
    scenarios: tuple[Scenario, ...] = ("domain", "class")
    columns = []
    for scenario in scenarios:
        streams = [
            split_stream(*sets, scenario=scenario, shots=15, run=r, part="validation") for r in range(5)
        ]
        runs = [answers(learner, stream) for stream in streams]
        columns.append({name: fmean(run[name] for run in runs) for name in runs[0]})
    table = Table("answers", *scenarios, title="held-out digits, 5 tasks, %")
    for name in dict.fromkeys(name for column in columns for name in column):
        table.add_row(name, *(f"{c[name]:.1f}" if name in c else "–" for c in columns))
    Console().print(table)


if __name__ == "__main__":
    main()
