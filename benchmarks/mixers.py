"""What self-reference buys: in-context learners that differ in what carries the state, under one recipe.

Run: python -m benchmarks.mixers

Each is meta-trained as `fast_split_class` with the paper's linear head and the same seed, steps, streams and
images: the self-referential matrix, DeltaNet, linear attention, softmax attention (whose state grows with the
stream) and an LSTM. Printed are validation classes of Omniglot; the command printed last measures
Split-MNIST. Runs are kept in --out and not run again.
"""

import argparse
from pathlib import Path

import torch
from benchmarks.ablations import finish
from rich.console import Console
from rich.table import Table

from autocl.learner import Learner
from autocl.training.log import read_log

MIXERS = ("srwm", "delta", "linear", "attention", "lstm")
OPTIONS = "fast_split_class --learner.readout linear --objective.body-weight 0 --validation.batches 8"
DEMOS = 150
"""Five tasks of two classes, 15 demos of each."""


def state_bytes(learner: Learner) -> int:
    """What the learner keeps after a stream."""
    c = learner.config
    x, y = torch.zeros(1, DEMOS, c.channels, c.height, c.width), torch.zeros(1, DEMOS, dtype=torch.int64)
    with torch.inference_mode():
        return learner.learn(x, y, learner.initial_state()).nbytes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="+", choices=MIXERS, default=list(MIXERS))
    parser.add_argument("--out", type=Path, default=Path("runs/mixers"))
    args = parser.parse_args()
    title = f"average behind the fifth task, validation classes, % (seed {args.seed}, {args.steps} steps)"
    table = Table("mixer", "best", "at step", "minutes", "parameters", "state, KB", title=title)
    folders = []
    for mixer in args.only:
        folder = args.out / f"mixer-{mixer}"
        finish(folder, f"{OPTIONS} --learner.mixer {mixer} --seed {args.seed}", args.steps)
        folders.append(folder)
        lines = list(read_log(folder / "log.jsonl"))
        score, step = max(
            (line["validation/score"], line["step"]) for line in lines if "validation/score" in line
        )
        minutes = max(line.get("seconds", 0.0) for line in lines) / 60
        learner = Learner.from_pretrained(folder / "best.safetensors")
        size = sum(p.numel() for p in learner.parameters())
        kept = f"{state_bytes(learner) / 1000:,.0f}"
        table.add_row(mixer, f"{100 * score:.1f}", str(step), f"{minutes:.1f}", f"{size:,}", kept)
    Console().print(table)
    print("autocl bench split-mnist --row '' " + " ".join(f"--learner {folder}" for folder in folders))


if __name__ == "__main__":
    main()
