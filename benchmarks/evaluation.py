"""How much a passage saves: every image encoded once and all runs side by side, against plain loops.

Both take the same learner through the same Split-MNIST streams and must give the same matrix.
Run: python benchmarks/evaluation.py [--runs 4] [--queries 200]
"""

import time

import torch
import tyro

from autocl.baselines.incontext import InContext
from autocl.data import load
from autocl.data.eval_streams import split_stream
from autocl.data.stream import Stream
from autocl.learner import Learner
from autocl.learner.config import LearnerConfig
from autocl.passage import run_streams


@torch.no_grad()
def plain(learner: Learner, streams: list[Stream], queries: int) -> torch.Tensor:
    """One stream at a time; images are encoded whenever they are used."""
    rows = []
    for stream in streams:
        M = len(stream.tasks)
        values = torch.full((M, M), torch.nan, dtype=torch.float64)
        state = learner.initial_state()
        for i, task in enumerate(stream.tasks):
            x = task.sets[0].take(task.demos, channels=3)
            state = learner.learn(x, task.demo_labels, state)
            for j, asked in enumerate(stream.tasks[: i + 1]):
                pick = torch.arange(queries) * asked.queries.shape[1] // queries
                x = asked.sets[1].take(asked.queries[:, pick], channels=3)
                answer = learner.predict(x, state)[..., : stream.n_outputs].argmax(-1)
                values[i, j] = (answer == asked.query_labels[:, pick]).double().mean()
        rows.append(values)
    return torch.stack(rows)


def main(runs: int = 4, queries: int = 200, scenario: str = "class") -> None:
    torch.manual_seed(0)
    learner = Learner(LearnerConfig(n_classes=10)).eval()
    sets = load("mnist", "train"), load("mnist", "test")
    streams = [split_stream(*sets, scenario=scenario, shots=15, run=r) for r in range(runs)]  # type: ignore[arg-type]
    run_streams(InContext(learner), streams[:1], queries=2)  # compiles kernels, opens files
    started = time.perf_counter()
    slow = plain(learner, streams, queries)
    between = time.perf_counter()
    fast = run_streams(InContext(learner), streams, queries=queries).matrix.values
    ended = time.perf_counter()
    # Sums in another order may flip a few answers of an untrained learner.
    assert (slow - fast).nan_to_num().abs().max() <= 2 / queries, "the two disagree"
    loops, passage = between - started, ended - between
    print(f"plain loops {loops:.2f} s, passage {passage:.2f} s, {runs} runs, {queries} queries a task")
    print(f"ratio {loops / passage:.1f}")


if __name__ == "__main__":
    tyro.cli(main)
