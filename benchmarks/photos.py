"""What `photos` and `vectors` cost: `python -m benchmarks.photos`.

State at 100 classes, demos and queries a second from ready features of the length that the learner's network
has, and the share of a picture's way that is ours (decoding, preprocessing and the learner) beside the
network's. The learner takes all demos in one call; ContinualClassifier takes them one by one, tests one in 64
before, and answers in blocks of 32, so that results do not depend on how a stream is cut. CPU time of one
thread, so that other work on the machine disturbs little. Features are random, around one centre for each
class: cost does not depend on what they mean.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch
from PIL import Image

from autocl import ContinualClassifier
from autocl.encoders.backbones import get_backbone
from autocl.estimator.inputs import PHOTOS
from autocl.learner.find import find_learner
from autocl.learner.state import LearnerState

CLASSES = 100
LIMITS = {"state, MB": 2.0, "demos a second": 1000, "queries a second": 10_000, "ours, % of the time": 10}
"""At most so much of the first and the last, at least so many of the others."""


def seconds(work: Callable[[], object]) -> float:
    """CPU time of this process."""
    start = time.process_time()
    work()
    return time.process_time() - start


def vectors(n: int, length: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Features [n, length] and labels [n]; every class occurs."""
    centres = np.random.default_rng(0).normal(size=(CLASSES, length))
    labels = rng.permutation(np.arange(n) % CLASSES)
    return (centres[labels] + rng.normal(size=(n, length))).astype(np.float32), labels


def from_features(name: str, length: int, *, demos: int, queries: int) -> None:
    """Print what a learner costs from ready features: by itself, and inside a classifier."""
    rng = np.random.default_rng(1)
    X, y = vectors(CLASSES + demos, length, rng)
    Q, truth = vectors(queries, length, rng)
    learner = find_learner(name).with_features(length)
    clf = ContinualClassifier(learner)  # the learner itself: features come in instead of pictures
    clf.partial_fit(X[:CLASSES], y[:CLASSES])  # compiles and imports what is used first
    one_by_one = seconds(lambda: clf.partial_fit(X[CLASSES:], y[CLASSES:]))
    clf.predict(Q[:10])  # examines the experts
    in_blocks = seconds(lambda: clf.predict(Q))
    right = 100 * np.mean(clf.predict(Q[:1000]) == truth[:1000])

    def learn(rows: slice, state: LearnerState) -> LearnerState:
        f = learner.encode(torch.from_numpy(X[rows])[:, :, None, None])
        return learner.learn_features(f[None], torch.from_numpy(y[rows])[None], state)

    def answer(state: LearnerState) -> None:
        learner.predict_features(learner.encode(torch.from_numpy(Q)[:, :, None, None])[None], state)

    with torch.inference_mode():
        state = learn(slice(CLASSES), learner.initial_state(1, CLASSES))
        learning = seconds(lambda: learn(slice(CLASSES, None), state))
        answer(state)
        answering = seconds(lambda: answer(state))

    print(f"{name}: {CLASSES} classes, {length} features, {demos} demos; {right:.1f} % of queries right")
    show("state, MB", clf.state_.nbytes / 1e6)
    show("demos a second", demos / learning)
    show("queries a second", queries / answering)
    print(f"  in a classifier: {demos / one_by_one:,.0f} demos, {queries / in_blocks:,.0f} queries a second")


def from_pictures(n: int) -> None:
    """Print which share of the time from pictures to knowledge is not the network's."""
    rng = np.random.default_rng(2)
    photos = ContinualClassifier("photos")
    pictures = [Image.fromarray(rng.integers(0, 256, (480, 640, 3), np.uint8)) for _ in range(n)]
    names = [f"class {i % 4}" for i in range(n)]
    photos.partial_fit(pictures[:4], names[:4])
    whole = seconds(lambda: photos.partial_fit(pictures, names))
    backbone = get_backbone(PHOTOS[1])
    side = (backbone.image_size, backbone.image_size)
    small = [picture.resize(side) for picture in pictures]  # the network's time: nothing left to resize
    network = seconds(lambda: backbone(small))
    print(f"photos: pictures of 640×480, {1e3 * whole / n:.1f} ms CPU each, network {1e3 * network / n:.1f}")
    show("ours, % of the time", 100 * max(0.0, whole - network) / whole)


def show(name: str, value: float) -> None:
    """Print a figure beside its limit."""
    most = name in ("state, MB", "ours, % of the time")
    met = value <= LIMITS[name] if most else value >= LIMITS[name]
    limit = f"{'at most' if most else 'at least'} {LIMITS[name]:,}"
    print(f"  {name:22} {value:10,.1f}   {limit:16} {'holds' if met else 'MISSED'}")


def main() -> None:
    """Print every figure beside its limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--demos", type=int, default=2000)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--pictures", type=int, default=48)
    args = parser.parse_args()
    torch.set_num_threads(1)
    for name, network in (PHOTOS, ("vectors", "lite2")):
        from_features(name, get_backbone(network).n_features, demos=args.demos, queries=args.queries)
    from_pictures(args.pictures)


if __name__ == "__main__":
    main()
