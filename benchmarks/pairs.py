"""Split-MNIST, -Fashion and -CIFAR-10, 15 shots, on a learner's own features: `python -m benchmarks.pairs`.

Five tasks of two classes, domain- and class-incremental; demos from the training set, queries from the test
set, as `autocl bench split-mnist` has them. A learner and a stream are a pair: `everyday`,
`split-domain-memory` and `split-class-memory`, each on the streams it was made for, are 15 of them; the pairs
of `everyday split-domain split-class` are the same on the same features. The learner, the learner without its
body, the universal read-out (`vectors`) and the simple rivals of the world table answer the same queries.
"""

import argparse
from statistics import fmean

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from autocl.baselines.embedding import Embedding
from autocl.data import split_stream
from autocl.data.stream import Stream
from autocl.data.stream_config import Scenario
from autocl.evaluation.entry import open_learner
from autocl.evaluation.protocol import train_and_test
from autocl.evaluation.world.contestants import LearnerContestant, without_body
from autocl.evaluation.world.rivals import RIVALS
from autocl.evaluation.world.streams import Passage
from autocl.learner.find import find_learner

SETS = ("mnist", "fashion_mnist", "cifar10")
SCENARIOS: tuple[Scenario, ...] = ("domain", "class")
SHOTS = 15
LEARNERS = ("everyday", "split-domain-memory", "split-class-memory")
ONLY: dict[str, Scenario] = {"split-domain-memory": "domain"}
"""Learners whose encoder was meta-trained for one scenario, though they have outputs for both."""
UNIVERSAL = "vectors"


def as_passage(stream: Stream, embedding: Embedding, queries: int) -> Passage:
    """One stream as features."""
    tasks = [task.asked(queries) for task in stream.tasks]
    x = [embedding.take(task.sets[0], task.demos[0]) for task in tasks]
    q = [embedding.take(task.sets[1], task.queries[0]) for task in tasks]
    return Passage(
        stream.name,
        torch.cat(x).numpy(),
        torch.cat([task.demo_labels[0] for task in tasks]).numpy(),
        np.cumsum([len(part) for part in x]),
        torch.cat(q).numpy(),
        torch.cat([task.query_labels[0] for task in tasks]).numpy(),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "learners", nargs="*", default=LEARNERS, help="names in the zoo, files, folders of runs"
    )
    parser.add_argument("--embedding", help="for a learner of vectors: the learner whose features it takes")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--queries", type=int, default=400, help="of each task; 10000: all")
    args = parser.parse_args()
    columns = ["learner", "without body", UNIVERSAL, *(rival.name for rival in RIVALS)]
    table = Table("pair", *columns, title=f"{SHOTS} shots, {args.runs} runs, %")
    found: dict[str, list[float]] = {name: [] for name in columns}
    for name in args.learners:
        entry = open_learner(name)
        learner = entry.learner
        giver = open_learner(args.embedding) if learner.any_length and args.embedding else entry
        if giver.learner.any_length:
            parser.error(f"{name} takes ready-made vectors: give --embedding LEARNER")
        embedding = Embedding.of(giver.learner)
        if learner.any_length:
            learner = learner.with_features(embedding.n_features)
        bare = without_body(learner)
        players = [LearnerContestant("learner", learner)]
        players += [LearnerContestant("without body", bare)] if bare is not None else []
        universal = find_learner(UNIVERSAL).with_features(embedding.n_features)
        contestants = [*players, LearnerContestant(UNIVERSAL, universal), *RIVALS]
        for images in SETS:
            both = [giver.load(ref) for ref in train_and_test(images)]
            for scenario in SCENARIOS:
                few = scenario == "class" and not learner.grows and learner.config.n_classes < 10
                if few or ONLY.get(name, scenario) != scenario:
                    continue
                streams = [
                    split_stream(*both, scenario=scenario, shots=SHOTS, run=r) for r in range(args.runs)
                ]
                passages = [as_passage(stream, embedding, args.queries) for stream in streams]
                answers = np.stack([p.answers for p in passages])
                cells = {}
                for c in contestants:
                    scores = c.ask(passages, streams[0].n_outputs).scores
                    cells[c.name] = 100 * float((scores.argmax(-1) == answers).mean())
                    found[c.name].append(cells[c.name])
                pair = f"{name}, {images}, {scenario}"
                table.add_row(pair, *(f"{cells[c]:.1f}" if c in cells else "" for c in columns))
    pairs = len(found["learner"])
    of = {name: "" if len(found[name]) == pairs else f" (of {len(found[name])})" for name in columns}
    means = [f"{fmean(found[name]):.2f}{of[name]}" if found[name] else "" for name in columns]
    table.add_section()
    table.add_row(f"mean of {pairs} pairs", *means)
    Console(width=180).print(table)


if __name__ == "__main__":
    main()
