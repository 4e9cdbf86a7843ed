"""Demos and queries a second of the default learner on one core: `python -m benchmarks.streaming`.

Everything goes through ContinualClassifier, from bytes to labels. Contestants take turns; rates are of the
processor's time, since on a machine that does other things as well the clock measures those, too.
"""

import argparse

import numpy as np
import torch
from benchmarks.training import take_turns

from autocl import ContinualClassifier

CLASSES = 10
DEMOS = 64
"""One by one in a round: the default learner tests itself on one demo in so many."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--learner", default="everyday", help="name in the zoo")
    parser.add_argument("--demos", type=int, default=200, help="demos that it has seen before")
    parser.add_argument("--rounds", type=int, default=10)
    args = parser.parse_args()
    torch.set_num_threads(1)
    x = np.random.default_rng(0).integers(0, 256, (500, 28, 28), np.uint8)
    y = np.arange(500) % CLASSES
    seen = np.arange(args.demos) % len(x)

    def taught(**options: bool) -> ContinualClassifier:
        return ContinualClassifier(args.learner, **options).fit(x[seen], y[seen])

    # A classifier that is only asked, so that its state stays what it is, and others that go on learning.
    asked, tested, untested, batches = taught(), taught(), taught(prequential=False), taught()

    def one_by_one(clf: ContinualClassifier) -> None:
        for i in range(DEMOS):
            clf.partial_fit(x[i : i + 1], y[i : i + 1])

    contestants = {
        "partial_fit, one demo a call, prequential (default)": (DEMOS, lambda: one_by_one(tested)),
        "partial_fit, one demo a call, not tested first": (DEMOS, lambda: one_by_one(untested)),
        "partial_fit, 500 demos a call": (500, lambda: batches.partial_fit(x, y)),
        "predict, one image a call": (DEMOS, lambda: [asked.predict(x[i : i + 1]) for i in range(DEMOS)]),
        "predict, 500 images a call": (500, lambda: asked.predict(x)),
        "encode, one image a call": (DEMOS, lambda: [asked.encode(x[i : i + 1]) for i in range(DEMOS)]),
        "encode, 500 images a call": (500, lambda: asked.encode(x)),
    }
    took = take_turns({name: run for name, (_, run) in contestants.items()}, args.rounds)
    print(
        f"{args.learner}, {args.demos} demos of {CLASSES} classes before; torch {torch.__version__}, 1 thread"
    )
    for name, (images, _) in contestants.items():
        cpu, clock = took[name].cpu / images, took[name].clock / images
        print(f"{name:<53}{1 / cpu:8,.0f}/s, {1e3 * cpu:6.3f} ms ({1e3 * clock:.3f} on the clock)")


if __name__ == "__main__":
    main()
