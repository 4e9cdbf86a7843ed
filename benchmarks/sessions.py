"""Do sessions answer faster if they go through the learner together? `python -m benchmarks.sessions`.

Sessions of one shape are asked one by one, as the engine does it, and with their states stacked into one
batch. Printed are the time of both, their ratio, and how many sessions get the same bits: an answer must be
that of a classifier of its own. (Encoding is batched already; it does not depend on the batch.)
"""

import argparse
import time

import torch

from autocl.estimator.exact import ASK_BLOCK
from autocl.learner.find import find_learner
from autocl.learner.state import LearnerState

SHAPES = ((2, 2), (5, 3), (12, 4), (40, 10))
"""Demos and classes of a session."""
ROUNDS = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--learner", default="everyday", help="a name in the zoo, or a file")
    parser.add_argument("--sessions", type=int, default=32)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    learner, B = find_learner(arguments.learner), arguments.sessions
    for demos, classes in SHAPES:
        random = torch.Generator().manual_seed(0)
        f = torch.randn(B, demos, learner.width, generator=random).relu()
        f += 0.3 * torch.randn(B, 1, learner.width, generator=random)
        q = torch.randn(B, ASK_BLOCK, learner.width, generator=random).relu()
        y = (torch.arange(demos) % classes)[None]
        with torch.inference_mode():
            empty = learner.grow(learner.initial_state(), classes)
            states = [learner.learn_features(f[i : i + 1], y, empty).fork() for i in range(B)]
            fastest = [float("inf")] * 2
            for _ in range(ROUNDS):
                started = time.process_time()
                alone = torch.cat([learner.predict_features(q[i : i + 1], states[i]) for i in range(B)])
                middle = time.process_time()
                together = learner.predict_features(q, LearnerState.cat(states))
                took = (middle - started, time.process_time() - middle)
                fastest = [min(pair) for pair in zip(fastest, took, strict=True)]
        same = sum(torch.equal(a, b) for a, b in zip(alone, together, strict=True))
        one, stacked = (1000 * seconds / B for seconds in fastest)
        print(
            f"{demos} demos of {classes} classes: {one:.1f} ms a session alone, {stacked:.1f} stacked "
            f"({one / stacked:.1f} times as fast); {same} of {B} equal bit for bit",
            flush=True,
        )


if __name__ == "__main__":
    main()
