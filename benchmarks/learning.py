"""Minutes of meta-training until a target is met on validation classes: `python -m benchmarks.learning two`.

Starts `autocl train`, follows its log, and interrupts it once a validation meets the target:
  two   Omniglot, 2 tasks, 5-way 5-shot: both tasks at least 90 % behind the second
  five  Omniglot, 5 tasks, 2-way 15-shot, class-incremental: average behind the fifth at least 96.8 % (the
        paper's figure)
Validation classes are neither trained on nor the paper's test sets; chance is 20 % and 10 %. Training time is
what the log counts: steps without validation. Time on the clock has all: start, data, compiling, validation.
Options behind `--` go to `autocl train`, e.g. `-- --learner.readout linear`.
"""

import argparse
import json
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from autocl.training.log import read_log


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What to train, and when it is good enough."""

    command: str
    rule: str
    target: float
    """In [0, 1], for the mean or the minimum of the last row of the validation matrix."""

    def score(self, matrix: list[list[float | None]]) -> float:
        last = [a for a in matrix[-1] if a is not None]
        return min(last) if self.rule == "worst task" else sum(last) / len(last)


SETTINGS = {
    "two": Setting(
        command="fast_split_domain --streams.tasks 2 --streams.ways 5 --streams.shots 5 --streams.queries 25 "
        "--streams.pool-classes 20 --streams.pool-images 10 --learner.n-classes 5 --validation.every 25 "
        "--validation.batches 8",
        rule="worst task",
        target=0.90,
    ),
    "five": Setting(
        command="fast_split_class --validation.every 50 --validation.batches 8",
        rule="average",
        target=0.968,
    ),
}


@dataclass(frozen=True, kw_only=True)
class Point:
    """One validation."""

    step: int
    score: float
    last: list[float]
    """Accuracies of all tasks behind the last one."""
    training: float
    """Minutes."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """One run."""

    seed: int
    reached: bool
    clock: float
    """Minutes until the run had stopped."""
    curve: list[Point]


def curve_of(folder: Path, setting: Setting) -> list[Point]:
    log, points, seconds = folder / "log.jsonl", [], 0.0
    for line in read_log(log) if log.exists() else []:
        seconds = line.get("seconds", seconds)
        if "validation/matrix" in line:
            matrix = line["validation/matrix"]
            points.append(
                Point(step=line["step"], score=setting.score(matrix), last=matrix[-1], training=seconds / 60)
            )
    return points


def follow(setting: Setting, folder: Path, seed: int, minutes: float, extra: list[str]) -> Result:
    """Train until the target is met, the time is over or the run ends by itself."""
    command = [sys.executable, "-m", "autocl", "train", *setting.command.split(), "--seed", str(seed), *extra]
    started = time.monotonic()
    run = subprocess.Popen([*command, "--out", str(folder)])
    met: list[Point] = []
    try:
        while run.poll() is None and not met and time.monotonic() - started < 60 * minutes:
            time.sleep(0.5)
            met = [p for p in curve_of(folder, setting) if p.score >= setting.target]
    finally:
        if run.poll() is None:
            run.send_signal(signal.SIGINT)
        status = run.wait()
    if status not in (0, 130):
        raise SystemExit(f"the run in {folder} failed with status {status}")
    clock = (time.monotonic() - started) / 60
    curve = curve_of(folder, setting)
    return Result(seed=seed, reached=any(p.score >= setting.target for p in curve), clock=clock, curve=curve)


def draw(results: list[Result], setting: Setting, path: Path) -> None:
    figure, axes = plt.subplots(figsize=(6, 4))
    for r in results:
        axes.plot([p.training for p in r.curve], [100 * p.score for p in r.curve], label=f"seed {r.seed}")
    axes.axhline(
        100 * setting.target, color="gray", linestyle="--", label=f"target {100 * setting.target:g} %"
    )
    axes.set(
        xlabel="minutes of training", ylabel=f"{setting.rule} at the end of the stream, %", ylim=(0, 100)
    )
    axes.legend()
    figure.savefig(path, dpi=150, bbox_inches="tight")


def main() -> None:
    own, _, extra = " ".join(sys.argv[1:]).partition(" -- ")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("setting", choices=SETTINGS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--minutes", type=float, default=60.0, help="give a run up after so long")
    parser.add_argument("--out", type=Path, default=Path("runs/learning"))
    args = parser.parse_args(own.split())
    setting = SETTINGS[args.setting]
    args.out.mkdir(parents=True, exist_ok=True)
    results = []
    for seed in args.seeds:
        folder = args.out / f"{args.setting}-seed{seed}"
        if folder.exists():  # its log would be taken for this run's
            parser.error(f"{folder} holds a run already: remove it, or choose another --out")
        result = follow(setting, folder, seed, args.minutes, extra.split())
        results.append(result)
        last = result.curve[-1] if result.curve else None
        if last is not None:
            print(
                f"{args.setting}, seed {seed}: {'reached' if result.reached else 'did not reach'} "
                f"{100 * setting.target:g} % ({setting.rule} {100 * last.score:.1f} %) at step {last.step}, "
                f"{last.training:.1f} minutes of training, {result.clock:.1f} on the clock"
            )
    record = {"setting": asdict(setting), "options": extra.split(), "runs": [asdict(r) for r in results]}
    (args.out / f"{args.setting}.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    draw(results, setting, args.out / f"{args.setting}.png")


if __name__ == "__main__":
    main()
