"""The paper's recipes beside ours, over minutes and over steps: `python -m benchmarks.recipes RUN,RUN …`.

From the logs of runs of `autocl train`: mean over all tasks behind the last, on validation classes. Runs with
a comma between them are of one experiment and share a row of the figure; minutes are of training alone. The
figure of docs/paper.md has these, each on a core that others shared,

    V="--bf16 --validation.every 100 --validation.batches 4 --validation.rule objective"
    S="--bf16 --validation.every 25 --validation.batches 4 --validation.split= --init-from two-task"
    timeout -s INT 2700 autocl train paper_two_task $V --out runs/paper_two_task
    timeout -s INT 900 autocl train paper_two_task_fc100 $V --out runs/paper_two_task_fc100
    timeout -s INT 900 autocl train paper_three_task $V --out runs/paper_three_task
    timeout -s INT 720 autocl train paper_split_class $S --out runs/paper_split_class
    timeout -s INT 720 autocl train paper_split_domain $S --out runs/paper_split_domain
    timeout -s INT 840 autocl train paper_backbone --validation.every 100 --out runs/paper_backbone

and beside them `fast_two_task --bf16 --validation.every 50`, and `fast_split_class` and `fast_split_domain`,
which are the first stages of `split-class-linear` and `split-domain`.
"""

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
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


def draw(run: Path, over_time: Axes, over_steps: Axes, table: Table) -> None:
    """Add a run to a row of the figure, and its first, best and last validation to the table."""
    recipe, points = read_recipe(run), curve(run)
    steps, minutes, tasks = zip(*points, strict=True)
    means = [sum(of_step) / len(of_step) for of_step in tasks]
    over_time.plot(minutes, means, marker=".", markersize=4, label=recipe.name)
    over_steps.plot(steps, means, marker=".", markersize=4, label=recipe.name)
    for axes in (over_time, over_steps):
        axes.axhline(100 / recipe.streams.n_outputs, color="gray", linestyle="--", linewidth=1)
    best = means.index(max(means))
    for i in sorted({0, best, len(points) - 1}):
        each = " ".join(f"{a:.1f}" for a in tasks[i])
        mark = " (best)" if i == best else ""
        table.add_row(recipe.name, str(steps[i]), f"{minutes[i]:.1f}", each, f"{means[i]:.1f}{mark}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("runs", nargs="+", help="folders of the runs of one experiment, with commas between")
    parser.add_argument("--out", type=Path, default=Path("recipes.png"))
    args = parser.parse_args()
    size = (8, 2.2 * len(args.runs) + 0.8)
    figure, rows = plt.subplots(len(args.runs), 2, figsize=size, sharey="row", squeeze=False)
    table = Table("recipe", "step", "minutes", "tasks behind the last, %", "mean, %")
    for (over_time, over_steps), runs in zip(rows, args.runs, strict=True):
        for run in runs.split(","):
            draw(Path(run), over_time, over_steps, table)
        over_time.set(ylabel="tasks at the end, %", ylim=(0, 100))
        over_steps.legend(fontsize="small")
    rows[-1, 0].set(xlabel="minutes of training")
    rows[-1, 1].set(xlabel="steps")
    Console().print(table)
    figure.tight_layout()
    figure.savefig(args.out, dpi=120, bbox_inches="tight")


if __name__ == "__main__":
    main()
