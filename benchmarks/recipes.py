"""Recipes of one experiment side by side, over minutes and over steps: `python -m benchmarks.recipes RUN …`.

From the logs of runs of `autocl train`: the mean over all tasks behind the last, on validation classes. The
figure of docs/paper.md is that of the paper's recipe and ours, each for a bounded time on one core:

    autocl train paper_two_task --validation.every 50 --validation.batches 4 --out runs/paper  (and Ctrl-C)
    autocl train fast_two_task --validation.every 50 --out runs/fast
    python -m benchmarks.recipes runs/paper runs/fast --out docs/recipes.png
"""

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from benchmarks.learning import Setting, curve_of
from rich.console import Console
from rich.table import Table

from autocl.training.recipe import read_recipe

BOTH = Setting(command="", rule="average", target=1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, default=Path("recipes.png"))
    args = parser.parse_args()
    figure, (over_time, over_steps) = plt.subplots(1, 2, figsize=(8, 3), sharey=True)
    table = Table("recipe", "step", "minutes", "seconds a step", "tasks behind the last, %", "mean, %")
    for run in args.runs:
        recipe, curve = read_recipe(run), curve_of(run, BOTH)
        scores = [100 * point.score for point in curve]
        over_time.plot([point.training for point in curve], scores, label=recipe.name)
        over_steps.plot([point.step for point in curve], scores, label=recipe.name)
        for point, score in zip(curve, scores, strict=True):
            each = f"{60 * point.training / point.step:.2f}" if point.step else ""
            last = " ".join(f"{100 * a:.1f}" for a in point.last)
            table.add_row(recipe.name, str(point.step), f"{point.training:.1f}", each, last, f"{score:.1f}")
        over_time.set(xlabel="minutes of one core", ylabel="both tasks at the end, %", ylim=(0, 100))
    over_steps.set(xlabel="steps")
    for axes in (over_time, over_steps):
        axes.axhline(100 / recipe.streams.n_outputs, color="gray", linestyle="--", label="chance")
    over_steps.legend(fontsize="small")
    Console().print(table)
    figure.savefig(args.out, dpi=120, bbox_inches="tight")


if __name__ == "__main__":
    main()
