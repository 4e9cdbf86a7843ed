"""The ablations that the paper names, at the scale of `quick`: `python -m benchmarks.paper`.

variants   instance against batch norm, synchronous against delayed labels, the self-referential MLP-mixer:
           both tasks behind the second, on validation glyphs
lengths    context carry-over: the shipped `quick`, meta-trained on with two tasks a stream, with and without
           the state handed on to the next batch, in streams of 5, 10, 20 and 50 tasks
emergence  Figure 2: without backward terms, when each of two image sets is meta-learned, and what becomes of
           the loss of its tasks behind those of the other set
transfer   positive backward transfer: what a second task adds to MNIST, by its kind and the number of demos;
           shipped learners, unseen domains, nothing is trained or chosen

The same 60,000 weights, steps and seeds for all; one thing is changed at a time. Mean and 95 % interval over
seeds, chance 20 %. Runs are kept in --out and not run again. No test set is looked at but in `transfer`.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import torch
from benchmarks.ablations import finish
from rich.console import Console
from rich.table import Table

from autocl.data import StreamConfig, StreamSampler, load
from autocl.data.stream import side_by_side
from autocl.evaluation.emergence import read_emergence
from autocl.evaluation.entry import open_learner
from autocl.evaluation.protocol import Options
from autocl.evaluation.protocols.domains import chain_setting
from autocl.evaluation.results import summarise
from autocl.files import read_tensors
from autocl.learner.find import find_learner
from autocl.matrix import TransferMatrix
from autocl.passage import run_streams
from autocl.recipes import get_recipe
from autocl.training.checkpoint import FILE_NAME
from autocl.training.log import read_log
from autocl.training.trainer import validate_streams

NO_PROTOTYPES = "--prototype 0"
MIXER = "--learner.mixer srmixer --learner.encoder.kind patches"
SMALLER = "--learner.encoder.patch 8 --learner.depth 1 --batch-size 8"
"""With quick's own patches, depth and streams a step of the mixer takes ten seconds and 3 GB."""
VARIANTS = {
    "base": "",
    "batch norm in the encoder": "--learner.encoder.norm batch",
    "labels one demo late": "--learner.labels delayed",
    "no prototype loss": NO_PROTOTYPES,
    # It has no encoder for the prototype loss to teach: to be held against the line before.
    "self-referential mixer": f"{MIXER} {SMALLER} {NO_PROTOTYPES}",
}
ON = "--init-from quick --optimiser.lr 1e-3"
"""From nothing a learner whose state is handed on stays at chance for hundreds of steps."""
HANDED_ON = {"afresh": ON, "handed on": f"{ON} --carry-state 9"}
"""Nine batches after the first: 20 tasks before a stream starts afresh."""
LENGTHS = (5, 10, 20, 50)
MODEL = "model."
"""Before the names of weights in a checkpoint."""
POINTS = 20
"""Of a curve: each the mean over a twentieth of the run."""
TINY = (
    "fast_two_task --objective.no-acl --learner.model-width 64 --learner.heads 4 --learner.encoder.width 16 "
    "--streams.shots 5 --streams.queries 10 --streams.pool-images 10 --batch-size 24 --optimiser.lr 3e-3"
)
PAIRS = {"glyphs": "--sources.1.name glyphs", "mini_imagenet": ""}
"""What stands beside Omniglot."""
TRANSFERRED = ("two-task", "two-task-fc100", "three-task")
SECOND = {"B": "CIFAR-10", "C": "MNIST-59", "D": "Fashion-MNIST"}
"""Letters of the appendix's diverse domains: what is learned behind MNIST-04."""
SHOTS = (1, 2, 5, 15)
RUNS, QUERIES = 20, 200


def trained(out: Path, name: str, recipe: str, options: str, *, steps: int, seed: int) -> Path:
    """The folder of a finished run."""
    folder = out / f"{name.replace(' ', '-')}-seed{seed}"
    checks = f"--validation.every {steps} --validation.batches 8"
    finish(folder, f"{recipe} {options} {checks} --seed {seed}", steps)
    return folder


def cell(values: list[float]) -> str:
    """Mean and interval in percent."""
    s = summarise([100 * v for v in values])
    return f"{s.mean:.1f} ± {s.interval:.1f}"


def variants(out: Path, steps: int, seeds: list[int]) -> Table:
    """Both tasks behind the second, for each variant."""
    table = Table("variant", "first task", "second task", "first, when learned", "seconds a step")
    for name, options in VARIANTS.items():
        matrices, seconds = [], []
        for seed in seeds:
            lines = list(read_log(trained(out, name, "quick", options, steps=steps, seed=seed) / "log.jsonl"))
            matrices.append([line["validation/matrix"] for line in lines if "validation/matrix" in line][-1])
            seconds.append(max(line.get("seconds", 0.0) for line in lines) / steps)
        cells = (cell([m[i][j] for m in matrices]) for i, j in ((1, 0), (1, 1), (0, 0)))
        table.add_row(name, *cells, f"{min(seconds):.2f}")
    return table


@torch.no_grad()
def at_length(folder: Path, tasks: int) -> tuple[float, float]:
    """Accuracy of the task learned last, and mean over all tasks, behind the last of so many."""
    streams = get_recipe("quick").streams
    assert isinstance(streams, StreamConfig)
    sampler = StreamSampler(
        [load("glyphs", "val", classes=max(LENGTHS) * streams.ways)],
        replace(streams, tasks=tasks, pool_classes=tasks * streams.ways),
        8,
        seed=0,
    )
    learner = find_learner(str(folder))
    # Its last weights: the best by validation on two tasks from a fresh state may be those it started from.
    tensors, _ = read_tensors(folder / FILE_NAME, kind="checkpoint")
    learner.load_weights({n.removeprefix(MODEL): t for n, t in tensors.items() if n.startswith(MODEL)})
    found = validate_streams(learner.eval(), sampler, 4)
    last = TransferMatrix(torch.stack([m.values for m in found])).values[:, -1]
    return float(last[:, -1].mean()), float(last.mean())


def lengths(out: Path, steps: int, seeds: list[int]) -> Table:
    """Streams longer than those of meta-training, with and without the state handed on in training."""
    table = Table("learner", "of the tasks", *(f"{tasks} tasks" for tasks in LENGTHS))
    for name, options in HANDED_ON.items():
        folders = [trained(out, name, "quick", options, steps=steps, seed=seed) for seed in seeds]
        found = [[at_length(folder, tasks) for folder in folders] for tasks in LENGTHS]
        for i, of in enumerate(("the last", "all")):
            table.add_row(name, of, *(cell([runs[i] for runs in of_length]) for of_length in found))
    return table


def emergence(out: Path, steps: int, seeds: list[int]) -> Table:
    """When sets are learned, and the loss of their tasks behind the other set: at its least, at the end."""
    table = Table("beside Omniglot", "seed", "set", "learned at", "own loss", "behind: least", "behind: end")
    for pair, options in PAIRS.items():
        for seed in seeds:
            folder = trained(out, f"without-acl-{pair}", TINY, options, steps=steps, seed=seed)
            run = read_emergence(folder, points=POINTS)
            for title, learned in run.learned_at().items():
                of_set = [c for c in run.curves if c.set == title]
                own = next(c.losses for c in of_set if not c.backward)
                back = next(c.losses for c in of_set if c.backward)
                when = "never" if learned is None else f"{learned:.0f}"
                losses = (f"{x:.2f}" for x in (own[-1], min(back), back[-1]))
                table.add_row(pair, str(seed), title, when, *losses)
    return table


@torch.no_grad()
def gains(learner: str, second: str, shots: int) -> list[float]:
    """Accuracy on MNIST-04 behind the second task, less that before it, of each run."""
    entry, setting = open_learner(learner), chain_setting(f"A→{second}", {}, shots=shots)
    sets = {ref.key: entry.load(ref) for ref in setting.sets}
    streams = side_by_side([setting.streams(sets, run, Options()) for run in range(RUNS)])
    passed = run_streams(entry.method, streams, queries=QUERIES)
    return (passed.matrix.values[:, 1, 0] - passed.matrix.values[:, 0, 0]).tolist()


def transfer(out: Path, steps: int, seeds: list[int]) -> Table:
    """What a second task adds to the first; runs are draws of demos, folder, steps and seeds play no part."""
    table = Table("learner", "behind MNIST-04", *(f"{shots} demos a class" for shots in SHOTS))
    for learner in TRANSFERRED:
        for second, title in SECOND.items():
            table.add_row(learner, title, *(cell(gains(learner, second, shots)) for shots in SHOTS))
    return table


TABLES = {"variants": variants, "lengths": lengths, "emergence": emergence, "transfer": transfer}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(TABLES), default=list(TABLES))
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--out", type=Path, default=Path("runs/paper-ablations"))
    args = parser.parse_args()
    for name in args.only:
        table = TABLES[name](args.out, args.steps, args.seeds)
        table.title = f"{name}: {args.steps} steps, seeds {', '.join(map(str, args.seeds))}"
        Console(width=140).print(table)


if __name__ == "__main__":
    main()
