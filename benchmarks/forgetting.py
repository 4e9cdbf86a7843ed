"""What is left of the first task, over the steps of meta-training: `python -m benchmarks.forgetting RUN …`.

From the logs of two-task runs of `autocl train`: accuracy on validation classes of the first task when it has
been learned, of the first behind the second, and of the second. Chance is 20 % in 5 ways. The figure of
docs/paper.md is that of three runs without backward terms, on photographs and on drawings and photographs,
the latter under the paper's schedule and under that of two-task:

    autocl train two-task-fc100-noacl --out runs/fc100-noacl
    autocl train two-task-noacl --out runs/two-task-noacl
    autocl train two-task-noacl --optimiser.schedule cosine --optimiser.warmup 50 --optimiser.lr 1.5e-3 \
        --optimiser.clip 1 --out runs/two-task-noacl-cosine
    python -m benchmarks.forgetting runs/fc100-noacl runs/two-task-noacl runs/two-task-noacl-cosine \
        --out docs/forgetting.png
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

ENTRIES = {"first, when learned": (0, 0), "second": (1, 1), "first, behind the second": (1, 0)}


def curve(run: Path) -> dict[int, list[float]]:
    """Step -> percent of each of ENTRIES."""
    return {
        line["step"]: [100 * line["validation/matrix"][i][j] for i, j in ENTRIES.values()]
        for line in read_log(run / "log.jsonl")
        if "validation/matrix" in line
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, default=Path("forgetting.png"))
    args = parser.parse_args()
    figure, axes = plt.subplots(
        1, len(args.runs), figsize=(4 * len(args.runs), 3), sharey=True, squeeze=False
    )
    for ax, run in zip(axes[0], args.runs, strict=True):
        found, recipe = curve(run), read_recipe(run)
        title = (
            f"{' and '.join(source.title for source in recipe.sources)}\n{recipe.optimiser.schedule} schedule"
        )
        table = Table("step", *ENTRIES, title=f"{title}; validation classes, %")
        for step, values in found.items():
            table.add_row(str(step), *(f"{v:.1f}" for v in values))
        Console().print(table)
        for name, values in zip(ENTRIES, zip(*found.values(), strict=True), strict=True):
            ax.plot(list(found), values, label=name)
        ax.axhline(100 / recipe.streams.n_outputs, color="gray", linestyle="--", label="chance")
        ax.set(title=title, xlabel="step", ylim=(0, 100))
    axes[0, 0].set_ylabel("accuracy on validation classes, %")
    axes[0, 0].legend(fontsize="small", loc="upper left")  # above the curves of photographs
    figure.savefig(args.out, dpi=120, bbox_inches="tight")


if __name__ == "__main__":
    main()
