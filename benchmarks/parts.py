"""What self-modifying body and ridge read-out each contribute: `python -m benchmarks.parts split-class`.

The logits of a learner with a ridge read-out are a sum of two; how much each counts is meta-learned. Here the
sum answers, and each alone: streams over Omniglot's validation classes, which the learner was selected on and
never trained on, and Split-MNIST over the 5,000 held-out *training* images. No test image is looked at.
"""

import argparse
import copy
from statistics import fmean

import torch
from rich.console import Console
from rich.table import Table

from autocl.data import StreamConfig, StreamSampler, load, split_stream
from autocl.data.stream_config import Scenario
from autocl.learner import Learner
from autocl.learner.find import find_learner
from autocl.passage import run_streams
from autocl.training.trainer import validate_streams

SCENARIOS: tuple[Scenario, ...] = ("domain", "class")
TASKS, SHOTS = (2, 5, 10, 20), (1, 5, 15)


def parts(learner: Learner) -> dict[str, Learner]:
    """The learner, and two copies of which each lacks a term."""
    body, readout = copy.deepcopy(learner), copy.deepcopy(learner)
    body.readout = None
    with torch.no_grad():
        readout.head.weight.zero_()
        readout.head.bias.zero_()
    return {"whole": learner, "body alone": body, "read-out alone": readout}


def accuracy(learner: Learner, sampler: StreamSampler, batches: int) -> float:
    """Of the queries of all tasks behind the last one, in percent."""
    return 100 * fmean(float(m.average()) for m in validate_streams(learner, sampler, batches))


def on_omniglot(learner: Learner, scenario: Scenario, tasks: int, shots: int, batches: int) -> float:
    """Accuracy behind the last task, in percent."""
    config = StreamConfig(tasks=tasks, ways=2, shots=shots, queries=10, scenario=scenario)
    sampler = StreamSampler([load("omniglot", "val", rotations=True)], config, 16, seed=0)
    return accuracy(learner, sampler, batches)


def on_mnist(learner: Learner, scenario: Scenario, shots: int) -> float:
    """The same on five tasks of two digits, mean over five sets of demos."""
    sets = load("mnist", "train"), load("mnist", "test")
    streams = [
        split_stream(*sets, scenario=scenario, shots=shots, run=r, part="validation") for r in range(5)
    ]
    return 100 * float(run_streams(learner, streams).matrix.average().mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("learner", help="a name in the zoo, a file, or the folder of a run")
    parser.add_argument("--batches", type=int, default=8, help="of 16 streams each")
    options = parser.parse_args()
    learner = find_learner(options.learner)
    if learner.readout is None:
        parser.error(f"{options.learner} has no ridge read-out to tell apart")
    candidates = parts(learner)
    table = Table("images", "scenario", "tasks", "shots", *candidates, title=options.learner)
    for scenario in SCENARIOS:
        fits = [t for t in TASKS if scenario == "domain" or 2 * t <= learner.config.n_classes]
        for tasks in fits:
            for shots in SHOTS:
                found = [on_omniglot(c, scenario, tasks, shots, options.batches) for c in candidates.values()]
                table.add_row("Omniglot", scenario, str(tasks), str(shots), *(f"{a:.1f}" for a in found))
        for shots in SHOTS if 5 in fits else ():
            found = [on_mnist(c, scenario, shots) for c in candidates.values()]
            table.add_row("MNIST", scenario, "5", str(shots), *(f"{a:.1f}" for a in found))
    Console().print(table)


if __name__ == "__main__":
    main()
