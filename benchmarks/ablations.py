"""What each ingredient of the fast recipes is worth: `python -m benchmarks.ablations`.

Omniglot, 2 tasks, 5-way 5-shot, the paper's architecture (linear read-out), the same seed and number of steps
for all; one thing is changed at a time. Validation classes are neither trained on nor a test set of the
paper; chance is 20 %. Without pooling a step costs several times as much, so that run gets fewer steps, by
the ratio that `python -m benchmarks.training` measured. Runs are kept in --out and not run again.
"""

import argparse
import subprocess
import sys
from pathlib import Path

from benchmarks.learning import SETTINGS
from rich.console import Console
from rich.table import Table

from autocl.training.log import read_log

BASE = f"{SETTINGS['two'].command} --learner.readout linear --validation.batches 16"
POOLING_RATIO = 3.6
VARIANTS = {
    "base": "",
    "label columns not scaled": "--learner.label-scale 1",
    "no prototype term": "--prototype 0",
    "one query per task": "--streams.queries 1",
    "no pooling": "--streams.drawing independent",
    "all steps with 5 shots": "--streams.min-shots None",
    "no augmentation": " ".join(
        f"--sources.0.augment.{a} 0" for a in ("rotate", "scale", "shear", "shift", "thickness")
    ),
    "norm before the recurrence": "--learner.norm pre",
    "encoder in bf16": "--bf16",
    "no rotated classes": "--sources.0.no-rotations",
    "no backward terms": "--objective.no-acl",
    "1-shot term": "--streams.first-shot --streams.queries 20",
    "1-shot term, no backward terms": "--streams.first-shot --streams.queries 20 --objective.no-acl",
}


def finish(folder: Path, options: str, steps: int) -> None:
    """Run `autocl train` with these options, continue the run in the folder, or find it done."""
    log = folder / "log.jsonl"
    if log.exists() and any(r["step"] == steps and "validation/score" in r for r in read_log(log)):
        return
    command = f"train {options} --steps {steps} --out {folder}"
    if (folder / "last.safetensors").exists():
        command = f"train --resume {folder}"
    subprocess.run([sys.executable, "-m", "autocl", *command.split()], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--steps", type=int, default=450)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", choices=list(VARIANTS), default=list(VARIANTS))
    parser.add_argument("--out", type=Path, default=Path("runs/ablations"))
    args = parser.parse_args()
    title = f"end of the stream, validation classes, % (seed {args.seed}, {args.steps} steps)"
    table = Table("variant", "first task", "second task", "first, when learned", "minutes", title=title)
    for name in args.only:
        folder = args.out / name.replace(" ", "-")
        steps = round(args.steps / POOLING_RATIO) if name == "no pooling" else args.steps
        options = f"{BASE} --seed {args.seed} --validation.every {steps // 3} {VARIANTS[name]}"
        finish(folder, options, steps)
        lines = list(read_log(folder / "log.jsonl"))
        matrix = [line["validation/matrix"] for line in lines if "validation/matrix" in line][-1]
        minutes = max(line.get("seconds", 0.0) for line in lines) / 60
        cells = (matrix[1][0], matrix[1][1], matrix[0][0])
        table.add_row(name, *(f"{100 * a:.1f}" for a in cells), f"{minutes:.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()
