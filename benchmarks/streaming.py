"""Streaming through ContinualClassifier on one core: `python -m benchmarks.streaming`.

Rates are given by wall time and by CPU time of this process; on a machine that does other things, too, the
second is what one core gives. Ratios compare contestants that took turns in this run. Weights are random:
speed does not depend on them.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch

from autocl import Learner, LearnerConfig
from autocl.estimator.classifier import ContinualClassifier
from autocl.recipes.fast import RIDGE

MODELS = {
    "the paper's model (5 outputs, 3×32×32)": LearnerConfig(n_classes=5),
    "everyday's (ridge read-out, 20 outputs, 3×32×32)": replace(RIDGE, n_classes=20),
}
LONG = 100_000


@dataclass(frozen=True, kw_only=True)
class Took:
    """Seconds for one image."""

    wall: float
    cpu: float


def best(contestants: dict[str, tuple[int, Callable[[], object]]], rounds: int) -> dict[str, Took]:
    """Least time per image of each contestant over rounds in which all take turns.

    The least, because whatever else the machine does can only add to what the code needs.
    """
    times: dict[str, list[Took]] = {name: [] for name in contestants}
    for round_number in range(rounds + 1):
        for name, (images, run) in contestants.items():
            wall, cpu = time.perf_counter(), time.process_time()
            run()
            took = Took(wall=(time.perf_counter() - wall) / images, cpu=(time.process_time() - cpu) / images)
            if round_number:  # the first round compiles and warms up
                times[name].append(took)
    return {
        name: Took(wall=min(t.wall for t in found), cpu=min(t.cpu for t in found))
        for name, found in times.items()
    }


def bench(title: str, config: LearnerConfig, rounds: int) -> None:
    torch.manual_seed(0)
    learner = Learner(config).eval()
    x = np.random.default_rng(0).integers(0, 256, (500, 28, 28), np.uint8)
    y = np.arange(500) % config.n_classes
    # Two classifiers of the same learner: one does not predict each demo before it learns it.
    full = ContinualClassifier(learner).fit(x[:50], y[:50])
    lean = ContinualClassifier(learner, prequential=False).fit(x[:50], y[:50])

    def one_by_one(clf: ContinualClassifier) -> None:
        for i in range(50):
            clf.partial_fit(x[i : i + 1], y[i : i + 1])

    took = best(
        {
            "partial_fit, one demo a call": (50, lambda: one_by_one(lean)),
            "the same, predicted first (default)": (50, lambda: one_by_one(full)),
            "partial_fit, 500 demos a call": (500, lambda: lean.partial_fit(x, y)),
            "predict, one image a call": (50, lambda: [lean.predict(x[i : i + 1]) for i in range(50)]),
            "predict, 500 images a call": (500, lambda: lean.predict(x)),
        },
        rounds,
    )
    print(title)
    base = took["partial_fit, one demo a call"]
    for name, t in took.items():
        print(
            f"  {name:37s}{1 / t.cpu:7.0f}/s of CPU time, {1 / t.wall:7.0f}/s of wall time, "
            f"{1e3 * t.cpu:6.2f} ms, {base.cpu / t.cpu:5.2f}×"
        )
    state = learner.initial_state()
    first = learner.learn_features(
        torch.randn(1, 1, learner.encoder.n_features), torch.zeros(1, 1).long(), state
    )
    sizes = {1: first.nbytes}
    with torch.inference_mode():
        state = first
        for _ in range(LONG // 1000):
            f = torch.randn(1, 1000, learner.encoder.n_features)
            state = learner.learn_features(f, torch.randint(config.n_classes, (1, 1000)), state)
    sizes[LONG] = state.nbytes
    shown = ", ".join(f"{size:,} bytes after {n:,} demos" for n, size in sizes.items())
    finite = all(bool(t.isfinite().all()) for t in state.tensors.values())
    print(f"  state: {shown}; {'finite' if finite else 'NOT finite'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    print(f"torch {torch.__version__}, {arguments.threads} thread(s), float32, 28×28 bytes in")
    for title, config in MODELS.items():
        bench(title, config, arguments.rounds)


if __name__ == "__main__":
    main()
