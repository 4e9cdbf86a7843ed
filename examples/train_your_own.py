"""Meta-train a small learner and see what it learned to do: `python examples/train_your_own.py`.

Streams of two tasks, five invented characters each; after both tasks the learner is asked about both, and
the gradient of its answers teaches it how to learn. Minutes on two cores; fewer steps are quicker and worse.
`autocl train --help` has the same and more, also for a folder of your own images.
"""

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

import torch
from matplotlib.figure import Figure

from autocl import Learner
from autocl.data import load
from autocl.data.sampler import StreamSampler
from autocl.figures import plot_transfer_matrix
from autocl.matrix import TransferMatrix
from autocl.recipes import get_recipe
from autocl.training.trainer import train, validate_streams


def main(steps: int, out: Path) -> None:
    recipe = replace(get_recipe("quick"), steps=steps)
    with tempfile.TemporaryDirectory() as folder:
        learner = Learner.from_pretrained(train(recipe, Path(folder) / "run"))

    # Characters of the test split: neither trained on nor used to choose the best step.
    streams = StreamSampler([load("glyphs", "test", classes=200)], recipe.streams, batch_size=24, seed=0)
    matrix = TransferMatrix(torch.stack([m.values for m in validate_streams(learner, streams, 4)]).mean(0))
    first, then, second = (100 * float(matrix.values[at]) for at in ((0, 0), (1, 0), (1, 1)))
    print(f"task 1 just learned {first:.1f} %, after task 2 {then:.1f} %; task 2 {second:.1f} % (chance 20)")

    figure = Figure(figsize=(4.4, 3.4), layout="constrained")
    plot_transfer_matrix(matrix, ["task 1", "task 2"], ax=figure.subplots())
    figure.savefig(out, dpi=120)
    print(f"saved {out}")


if __name__ == "__main__":
    options = argparse.ArgumentParser(description="Meta-train a small learner; draw what it learned to do.")
    options.add_argument("--steps", type=int, default=get_recipe("quick").steps)
    options.add_argument("--out", type=Path, default=Path("train_your_own.png"))
    main(**vars(options.parse_args()))
