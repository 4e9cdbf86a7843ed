"""What self-modifying body and ridge read-out each contribute: `python -m benchmarks.parts split-class`.

The scores of a learner with a ridge read-out are a sum of two. Streams over Omniglot's validation classes,
the ones the learner was selected on and never trained on, are answered by the sum and by either term alone.
"""

import argparse

import torch
from rich.console import Console
from rich.table import Table

from autocl import zoo
from autocl.data import StreamConfig, StreamSampler, load
from autocl.data.batch import StreamBatch
from autocl.data.stream_config import Scenario
from autocl.learner import Learner

SHAPES: list[tuple[Scenario, int, int]] = [
    (scenario, tasks, shots)
    for scenario in ("domain", "class")
    for tasks in (2, 5, 10)
    for shots in (1, 5, 15)
]


@torch.no_grad()
def accuracies(learner: Learner, features: torch.Tensor, batch: StreamBatch) -> list[float]:
    """Accuracy behind the last task of the sum, of the body alone and of the read-out alone, in percent."""
    state = learner.initial_state(len(batch.tasks[0].demos))
    for task in batch.tasks:
        state = learner.learn_features(features[task.demos], task.demo_labels, state)
    f = features[torch.cat([t.queries for t in batch.tasks], dim=1)]
    labels = torch.cat([t.query_labels for t in batch.tasks], dim=1)
    body, readout = learner.score_features(f, state)
    assert readout is not None
    return [100 * float((s.argmax(-1) == labels).double().mean()) for s in (body + readout, body, readout)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("learner", help="a name in the zoo, or a file")
    parser.add_argument("--batches", type=int, default=10, help="of 16 streams each")
    options = parser.parse_args()
    known = options.learner in zoo.names()
    learner = zoo.load(options.learner) if known else Learner.from_pretrained(options.learner)
    if learner.readout is None:
        parser.error(f"{options.learner} has no ridge read-out to tell apart")
    images = load("omniglot", "val", rotations=True)
    table = Table(
        "scenario", "tasks", "shots", "whole", "body alone", "read-out alone", title=options.learner
    )
    for scenario, tasks, shots in SHAPES:
        config = StreamConfig(tasks=tasks, ways=2, shots=shots, queries=10, scenario=scenario)
        if config.n_outputs > learner.config.n_classes:
            continue
        sampler = StreamSampler([images], config, 16, seed=0)
        found = []
        for step in range(options.batches):
            batch = sampler.batch(step)
            features = learner.encode(sampler.images(batch, channels=learner.config.channels)[:, None])[:, 0]
            found.append(accuracies(learner, features.detach(), batch))
        mean = torch.tensor(found).mean(dim=0).tolist()
        table.add_row(scenario, str(tasks), str(shots), *(f"{a:.1f}" for a in mean))
    Console().print(table)


if __name__ == "__main__":
    main()
