"""Recipes of one experiment side by side, over minutes and over steps: `python -m benchmarks.recipes RUN …`.

From the logs of runs of `autocl train`: mean over all tasks behind the last, on validation classes. The
figure of docs/paper.md is that of the paper's recipe and ours, each for 17 minutes, validation included, on
a core that others shared:

    timeout -s INT 1020 autocl train paper_two_task --validation.every 50 --validation.batches 4 \
        --validation.rule objective --out runs/paper
    timeout -s INT 1020 autocl train fast_two_task --validation.every 50 --out runs/fast
    python -m benchmarks.recipes runs/paper runs/fast --out docs/recipes.png
"""

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from rich.console import Console
from rich.table import Table

from autocl.training.log import read_log
from autocl.training.recipe import read_recipe


def curve(run: Path) -> list[tuple[int, float, list[float]]]:
    """Step, minutes of training so far, and percent of each task behind the last."""
    points, seconds = [], 0.0
    for line in read_log(run / "log.jsonl"):
        seconds = line.get("seconds", seconds)
        if "validation/matrix" in line:
            points.append((line["step"], seconds / 60, [100 * a for a in line["validation/matrix"][-1]]))
    return points


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, default=Path("recipes.png"))
    args = parser.parse_args()
    figure, (over_time, over_steps) = plt.subplots(1, 2, figsize=(8, 3), sharey=True)
    table = Table("recipe", "step", "minutes", "tasks behind the last, %", "mean, %")
    for run in args.runs:
        recipe, points = read_recipe(run), curve(run)
        steps, minutes, tasks = zip(*points, strict=True)
        means = [sum(of_step) / len(of_step) for of_step in tasks]
        over_time.plot(minutes, means, marker=".", label=recipe.name)
        over_steps.plot(steps, means, marker=".", label=recipe.name)
        for (step, minute, of_step), mean in zip(points, means, strict=True):
            each = " ".join(f"{a:.1f}" for a in of_step)
            table.add_row(recipe.name, str(step), f"{minute:.1f}", each, f"{mean:.1f}")
    for axes in (over_time, over_steps):
        axes.axhline(100 / recipe.streams.n_outputs, color="gray", linestyle="--", label="chance")
    over_time.set(xlabel="minutes of training", ylabel="both tasks at the end, %", ylim=(0, 100))
    over_steps.set(xlabel="steps")
    over_steps.legend(fontsize="small")
    Console().print(table)
    figure.savefig(args.out, dpi=120, bbox_inches="tight")


if __name__ == "__main__":
    main()
