"""Accuracy and time of the embedded backbones: `python -m benchmarks.backbones FOLDER [FOLDER …]`.

Every folder holds one folder of pictures per class; the first is the one accuracy is reported on. Use
validation classes (of mini-ImageNet, say), never a test set: this table chooses the default. Accuracy: 10-way
15-shot, nearest class mean of unit features, the same episodes for all. Times are CPU time, the least of
several rounds in which all engines, networks and sizes take turns on the same pictures: other work on the
machine disturbs them little, and all alike. The last table asks what half precision on disk costs.
"""

import argparse
import random
import time
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from rich.console import Console
from rich.table import Table

from autocl.data.folder import PictureList, list_folder
from autocl.encoders.backbones import get_backbone, lite
from autocl.encoders.backbones.base import Preprocess
from autocl.encoders.backbones.efficientnet_lite import SHAPES, EfficientNetLite

WAYS, SHOTS, EPISODES = 10, 15, 200
NAMES, SIZES = ("lite0", "lite1", "lite2"), (128, 160, 192, 224)
Array = np.ndarray
Engine = Callable[[Array], Array]
Way = tuple[str, int, str]
"""Network, pixels a side, engine."""


def unit(x: Array) -> Array:
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def means_answers(demos: Array, queries: Array) -> Array:
    """Class of each query [q, F] by the nearest mean of demos [WAYS, SHOTS, F]."""
    return (queries @ unit(demos.mean(1)).T).argmax(1)


def lda_answers(demos: Array, queries: Array) -> Array:
    """The same with the within-class covariance, half-way to a multiple of the identity."""
    means = demos.mean(1)
    inner = (demos - means[:, None]).reshape(-1, demos.shape[2])
    cov = inner.T @ inner / (len(inner) - len(means))
    cov = 0.5 * cov + 0.5 * np.trace(cov) / len(cov) * np.eye(len(cov), dtype=cov.dtype)
    weights = np.linalg.solve(cov, means.T)
    return (queries @ weights - 0.5 * (means.T * weights).sum(0)).argmax(1)


def accuracy(classes: list[Array], answer: Callable[[Array, Array], Array], episodes: int) -> float:
    """Per cent of right answers over episodes of WAYS classes drawn with a fixed seed."""
    rng = np.random.default_rng(0)
    right = []
    for _ in range(episodes):
        chosen = rng.choice(len(classes), min(WAYS, len(classes)), replace=False)
        drawn = [classes[c][rng.permutation(len(classes[c]))] for c in chosen]
        demos = unit(np.stack([x[:SHOTS] for x in drawn]))
        for label, x in enumerate(drawn):
            right.append((answer(demos, unit(x[SHOTS:])) == label).mean())
    return 100 * float(np.mean(right))


def sample(pictures: PictureList, per_class: int) -> list[list[int]]:
    """Numbers of the pictures of each class that are used."""
    rng = random.Random(0)
    spans = [range(a, b) for a, b in zip(pictures.starts, pictures.starts[1:], strict=False)]
    return [sorted(rng.sample(span, min(per_class, len(span)))) for span in spans]


def features(name: str, pictures: PictureList, chosen: list[list[int]]) -> list[Array]:
    backbone = get_backbone(name)
    return [backbone([pictures.read(i, backbone.image_size) for i in numbers]) for numbers in chosen]


def by_plain_torch(network: EfficientNetLite) -> Engine:
    def forward(x: Array) -> Array:
        with torch.inference_mode():
            return network(torch.from_numpy(x)).numpy()

    return forward


def engines(name: str, compiled: bool) -> dict[str, Engine]:
    def fresh() -> EfficientNetLite:
        return lite.load_network(name, lite.PUBLISHED[name], SHAPES[name])

    made = {
        "eager": by_plain_torch(fresh()),
        "folded": by_plain_torch(fresh().fold()),
        "channels last": lite.by_torch(fresh().fold()),
        "onnxruntime": lite.by_onnxruntime(fresh().fold()),
    }
    if compiled:
        made["compiled"] = lite.by_torch(torch.compile(fresh().fold()))
    return made


def milliseconds(ways: dict[Way, Callable[[], object]], n: int, rounds: int) -> dict[Way, float]:
    """Least CPU milliseconds for each of the n pictures a way works on, all ways in turn."""
    taken: dict[Way, list[float]] = {key: [] for key in ways}
    for way in ways.values():
        way()
    for _ in range(rounds):
        for key, way in ways.items():
            start = time.process_time()
            way()
            taken[key].append((time.process_time() - start) / n * 1e3)
    return {key: min(values) for key, values in taken.items()}


def timed(
    names: list[str], sizes: list[int], batch: list[Image.Image], args: argparse.Namespace
) -> dict[Way, float]:
    """Every network, size and engine, and what making the pixels costs."""
    ways: dict[Way, Callable[[], object]] = {}
    made = {name: engines(name, args.compiled) for name in names}
    for size in sizes:
        pixels = Preprocess(size=size, mean=(127.0,) * 3, std=(128.0,) * 3)
        x = pixels.normalised(batch)
        for name in names:
            ways |= {(name, size, key): partial(engine, x) for key, engine in made[name].items()}
            ways[name, size, "pixels"] = partial(pixels.normalised, batch)
    return milliseconds(ways, len(batch), args.rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--names", nargs="+", default=NAMES, choices=NAMES)
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES)
    parser.add_argument("--per-class", type=int, default=60, help="pictures of a class that are used")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--compiled", action="store_true", help="time torch.compile, too")
    args = parser.parse_args()
    console = Console(width=110)
    pictures = list_folder(args.folders[0])
    chosen = sample(pictures, args.per_class)
    batch = [pictures.read(numbers[0], max(args.sizes)) for numbers in chosen[:8]]
    columns = ["eager", "folded", "channels last", *["compiled"] * args.compiled, "onnxruntime", "pixels"]
    threads = torch.get_num_threads()
    title = f"{pictures.name}: {WAYS}-way {SHOTS}-shot means, %; CPU ms per picture, threads: {threads}"
    table = Table("backbone", "accuracy", *columns, title=title)
    took = timed(args.names, args.sizes, batch, args)
    for name, size in product(args.names, args.sizes):
        right = accuracy(features(f"{name}@{size}", pictures, chosen), means_answers, EPISODES)
        table.add_row(f"{name}@{size}", f"{right:.1f}", *(f"{took[name, size, key]:.1f}" for key in columns))
    console.print(table)

    table = Table(
        "folder", "means 32", "means 16", "LDA 32", "LDA 16", title="Precision on disk, bits: accuracy, %"
    )
    for folder in args.folders:
        pictures = list_folder(folder)
        exact = features(f"{args.names[0]}@{max(args.sizes)}", pictures, sample(pictures, args.per_class))
        half = [x.astype(np.float16).astype(np.float32) for x in exact]
        cells = [
            accuracy(x, how, EPISODES // 10) for how in (means_answers, lda_answers) for x in (exact, half)
        ]
        table.add_row(pictures.name, *(f"{cell:.2f}" for cell in cells))
    console.print(table)


if __name__ == "__main__":
    main()
