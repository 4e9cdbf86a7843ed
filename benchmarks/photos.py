"""What `photos` and `vectors` cost: `python -m benchmarks.photos`.

State at 100 classes, demos a second and queries a second from features of EfficientNet-Lite2's length, and
the share of a picture's way that is ours (decoding, preprocessing and the learner) beside the network's. CPU
time of one thread, so that other work on the machine disturbs little. Features are random, around one centre
for each class: cost does not depend on what they mean.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch
from PIL import Image

from autocl import ContinualClassifier
from autocl.encoders.backbones import get_backbone

F, CLASSES = 1280, 100
LIMITS = {"state, MB": 2.0, "demos a second": 1000, "queries a second": 10_000, "ours, % of the time": 10}


def seconds(work: Callable[[], object]) -> float:
    """CPU time of this process."""
    start = time.process_time()
    work()
    return time.process_time() - start


def vectors(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Features [n, F] and labels [n]; every class occurs."""
    centres = np.random.default_rng(0).normal(size=(CLASSES, F))
    labels = rng.permutation(np.arange(n) % CLASSES)
    return (centres[labels] + rng.normal(size=(n, F))).astype(np.float32), labels


def main() -> None:
    """Print every figure beside its limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--demos", type=int, default=2000)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--pictures", type=int, default=48)
    args = parser.parse_args()
    torch.set_num_threads(1)
    rng = np.random.default_rng(1)
    X, y = vectors(args.demos, rng)
    Q, truth = vectors(args.queries, rng)

    clf = ContinualClassifier("vectors")
    clf.partial_fit(X[:CLASSES], y[:CLASSES])  # compiles and imports what is used first
    learning = seconds(lambda: clf.partial_fit(X[CLASSES:], y[CLASSES:]))
    clf.predict(Q[:10])
    asking = seconds(lambda: clf.predict(Q))
    right = 100 * np.mean(clf.predict(Q[:1000]) == truth[:1000])

    photos = ContinualClassifier("photos")
    pictures = [Image.fromarray(rng.integers(0, 256, (480, 640, 3), np.uint8)) for _ in range(args.pictures)]
    names = [f"class {i % 4}" for i in range(args.pictures)]
    photos.partial_fit(pictures[:4], names[:4])
    whole = seconds(lambda: photos.partial_fit(pictures, names))
    backbone = get_backbone("lite2")
    side = (backbone.image_size, backbone.image_size)
    small = [picture.resize(side) for picture in pictures]  # the network's time: nothing left to resize
    network = seconds(lambda: backbone(small))

    figures = {
        "state, MB": clf.state_.nbytes / 1e6,
        "demos a second": (args.demos - CLASSES) / learning,
        "queries a second": args.queries / asking,
        "ours, % of the time": 100 * max(0.0, whole - network) / whole,
    }
    print(f"{CLASSES} classes, {F} features, {args.demos} demos; {right:.1f} % of queries right")
    for name, value in figures.items():
        most = name in ("state, MB", "ours, % of the time")
        met = value <= LIMITS[name] if most else value >= LIMITS[name]
        print(
            f"{name:22} {value:10,.1f}   {'at most' if most else 'at least'} {LIMITS[name]:,}   "
            f"{'holds' if met else 'MISSED'}"
        )
    print(f"a picture of 640×480: {1e3 * whole / args.pictures:.1f} ms CPU, of them network "
          f"{1e3 * network / args.pictures:.1f}")  # fmt: skip


if __name__ == "__main__":
    main()
