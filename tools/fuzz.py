"""Try to break every reader with damaged files: `python -m tools.fuzz --seconds 240` (`make fuzz`).

A reader may take a file or refuse it with an AutoclError. Any other exception, more than 1 GB of memory or
more than 10 seconds of the processor is a failure, and the exit status is 1. The same seed tries the same
files.
"""

import argparse
import io
import json
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch
from PIL import Image
from tools import ship
from tools.mutations import Mutate, bytes_damaged, canonical, header_damaged, json_damaged, sealed_damage

from autocl import ContinualClassifier, EncoderConfig, Learner, LearnerConfig, zoo
from autocl.config import to_dict
from autocl.errors import AutoclError
from autocl.estimator.preprocess import pictures_to_input
from autocl.evaluation.emergence import read_emergence
from autocl.evaluation.protocols import PROTOCOLS
from autocl.evaluation.results import read_results
from autocl.evaluation.table import lines, markdown
from autocl.figures.report import write_report
from autocl.files import write_json
from autocl.learner.config import ReadoutLearnerConfig
from autocl.learner.state import LearnerState
from autocl.pictures import FORMATS
from autocl.recipes import get_recipe
from autocl.training import checkpoint
from autocl.training.log import read_log
from autocl.training.recipe import read_recipe

SECONDS = 10
BYTES = 2**30
TENSORS: tuple[Mutate, ...] = (bytes_damaged, header_damaged, sealed_damage, sealed_damage)
JSON: tuple[Mutate, ...] = (bytes_damaged, json_damaged)
CONFIG = LearnerConfig(
    n_classes=3, channels=1, height=16, width=16, encoder=EncoderConfig(width=4), model_width=16, heads=2,
    readout="ridge", readout_keys=8,
)  # fmt: skip
MEANS = ReadoutLearnerConfig(n_classes=3, channels=1, height=16, width=16, encoder=EncoderConfig(width=4))
ROOT = Path(__file__).parent.parent
REPORTED = ("emergence.jsonl", "weights.jsonl")
"""Results that are no table."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """A reader, and whole files that it takes."""

    name: str
    samples: Sequence[tuple[str, bytes]]
    """File name, content."""
    read: Callable[[Path], object]
    mutations: tuple[Mutate, ...]


def targets(work: Path) -> list[Target]:
    """All readers.

    Args:
        work: a folder to make whole files in.
    """
    torch.manual_seed(0)
    learner = Learner(CONFIG).eval()
    optimiser = torch.optim.Adam(learner.parameters())
    x = np.random.default_rng(0).integers(0, 256, (8, 16, 16), np.uint8)
    clf = ContinualClassifier(learner).partial_fit(x[:3], ["a", ("b", 1), 3], classes=["a", 3])
    clf.evaluate({"probe": (x[:3], ["a", ("b", 1), 3])})
    clf.partial_fit(x[3:6], ["a", 3, 3]).save(work / "classifier.safetensors")
    several = ContinualClassifier(learner, overflow="ensemble").fit(x, list(range(8)))
    several.save(work / "ensemble.safetensors")
    clf.state_.save(work / "state.safetensors", learner)
    learner.save_pretrained(work / "learner.safetensors")
    means = Learner(MEANS).eval()
    means.save_pretrained(work / "means.safetensors")
    ContinualClassifier(means).fit(x[:5], list(range(5))).state_.save(work / "grown.safetensors", means)
    for p in learner.parameters():
        p.grad = torch.zeros_like(p)
    optimiser.step()
    checkpoint.save(work, learner, optimiser, checkpoint.Progress(step=3, best_step=2), clf.state_)
    write_json(work / "recipe.json", to_dict(get_recipe("quick")))
    write_json(work / "staged.json", to_dict(get_recipe("two-task")))
    (work / "log.jsonl").write_text(
        "".join(
            f'{{"step": {i}, "loss": 1.5, "term/glyphs/1/own": 0.5, "term/glyphs/1/back": 0.7}}\n'
            for i in range(5)
        )
    )

    def whole(*names: str) -> list[tuple[str, bytes]]:
        files = [(name, (work / name).read_bytes()) for name in names]
        return [(n, canonical(data) if n.endswith(".safetensors") else data) for n, data in files]

    def use_classifier(path: Path) -> None:
        read = ContinualClassifier.load(path, learner=learner)
        read.predict_proba(x[:2])
        str(read.report_)
        read.partial_fit(x[:1], [read.classes_.tolist()[0]])
        read.save(path)

    def use_state(path: Path) -> None:
        state = LearnerState.load(path, learner)
        f = torch.zeros(state.batch, 1, learner.encoder.n_features)
        with torch.no_grad():
            learner.learn_features(f, torch.zeros(state.batch, 1, dtype=torch.int64), state)

    def use_grown(path: Path) -> None:
        f = torch.zeros(1, 1, means.encoder.n_features)
        means.predict_features(f, LearnerState.load(path, means)[:1])

    def use_learner(path: Path) -> None:
        read = Learner.from_pretrained(path)
        ContinualClassifier(read).fit(x[:1], [0]).predict(x[:1])

    def use_checkpoint(path: Path) -> None:
        path.replace(path.parent / checkpoint.FILE_NAME)
        checkpoint.read_progress(path.parent)
        other = Learner(CONFIG)
        adam = torch.optim.Adam(other.parameters())
        checkpoint.load(path.parent, other, adam)
        for p in other.parameters():
            p.grad = torch.zeros_like(p)
        adam.step()

    def use_result(path: Path) -> None:
        markdown(lines(PROTOCOLS[path.stem], read_results(path.parent, path.stem)), title="x")

    def in_report(path: Path) -> None:
        write_report(path.parent)

    def use_card(path: Path) -> None:
        path.replace(path.parent / zoo.RECORDS)
        shutil.copy(ship.ZOO / "quick.safetensors", path.parent)
        ship.write_card("quick", folder=path.parent)

    def use_picture(path: Path) -> None:
        pictures_to_input([path], CONFIG)

    def in_folder(read: Callable[[Path], object], name: str) -> Callable[[Path], object]:
        def use(path: Path) -> None:
            path.replace(path.parent / name)
            read(path.parent)

        return use

    results = [p for name in PROTOCOLS if (p := ROOT / "results" / f"{name}.jsonl").is_file()]
    return [
        Target(name="classifier", samples=whole("classifier.safetensors", "ensemble.safetensors"),
               read=use_classifier, mutations=TENSORS),
        Target(name="state", samples=whole("state.safetensors"), read=use_state, mutations=TENSORS),
        Target(name="learner", samples=whole("learner.safetensors"), read=use_learner, mutations=TENSORS),
        Target(name="grown state", samples=whole("grown.safetensors"), read=use_grown, mutations=TENSORS),
        Target(name="read-out", samples=whole("means.safetensors"), read=use_learner, mutations=TENSORS),
        Target(name="checkpoint", samples=whole("last.safetensors"), read=use_checkpoint, mutations=TENSORS),
        Target(name="recipe", samples=whole("recipe.json", "staged.json"),
               read=in_folder(read_recipe, "recipe.json"), mutations=JSON),
        Target(name="log", samples=whole("log.jsonl"), read=read_log, mutations=JSON),
        Target(name="emergence", samples=whole("log.jsonl"), read=read_emergence, mutations=JSON),
        Target(name="results", samples=[(p.name, p.read_bytes()) for p in results], read=use_result,
               mutations=JSON),
        Target(name="report", samples=[(n, (ROOT / "results" / n).read_bytes()) for n in REPORTED],
               read=in_report, mutations=JSON),
        Target(name="card", samples=[("card.json", json.dumps({"quick": zoo.record("quick")}).encode())],
               read=use_card, mutations=JSON),
        Target(name="images", samples=_pictures(), read=use_picture, mutations=(bytes_damaged,)),
    ]  # fmt: skip


def _pictures() -> list[tuple[str, bytes]]:
    pixels = np.random.default_rng(0).integers(0, 256, (24, 30, 3), np.uint8)
    found = []
    for format in FORMATS:
        for mode in ("RGB", "L", "P", "1", "RGBA", "I;16"):
            out = io.BytesIO()
            try:
                Image.fromarray(pixels).convert(mode).save(out, format)
            except (OSError, KeyError, ValueError):
                continue  # not every format has every mode, nor every Pillow every format
            found.append((f"{mode}.{format.lower()}", out.getvalue()))
    return found


def fuzz(
    *, seed: int, cases: int, seconds: float, only: str = "", keep: Path | None = None
) -> dict[str, Counter[str]]:
    """Try damaged files, the readers in turn.

    Args:
        seed: same seed, same files.
        cases: at most so many.
        seconds: at most so long.
        only: names of readers, with commas; empty: all.
        keep: where to put the files that failed.

    Returns:
        For each reader how often it took, refused or failed; failures by what and where.
    """
    found: dict[str, Counter[str]] = {}
    signal.signal(signal.SIGPROF, _too_long)
    end = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        work = Path(folder)
        chosen = [t for t in targets(work) if not only or t.name in only.split(",")]
        for target in chosen:  # whole files must pass, and what is made once is not counted as memory
            found[target.name] = Counter()
            for name, data in target.samples:
                if (outcome := _try(target, work, name, data)) != "taken":
                    raise SystemExit(f"{target.name}: a whole {name} is not taken: {outcome}")
        with _memory(BYTES):
            for case in range(cases):
                if time.monotonic() > end:
                    break
                target = chosen[case % len(chosen)]
                rng = np.random.default_rng((seed, case))
                name, data = target.samples[int(rng.integers(len(target.samples)))]
                data = target.mutations[int(rng.integers(len(target.mutations)))](data, rng)
                outcome = _try(target, work, name, data)
                found[target.name][outcome] += 1
                if keep is not None and outcome not in ("taken", "refused"):
                    keep.mkdir(parents=True, exist_ok=True)
                    (keep / f"{target.name}-{case}-{name}").write_bytes(data)
    return found


def _try(target: Target, work: Path, name: str, data: bytes) -> str:
    with tempfile.TemporaryDirectory(dir=work) as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            target.read(path)
        except AutoclError:
            return "refused"
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            ours = next(
                (f for f in reversed(frames) if "autocl" in f.filename or "tools" in f.filename), frames[-1]
            )
            at = Path(ours.filename)
            where = at.relative_to(ROOT) if at.is_relative_to(ROOT) else at
            return f"{type(error).__name__} at {where}:{ours.lineno}"
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    return "taken"


class _memory:  # noqa: N801  # used like a function
    """Allow so many further bytes of address space; beyond that, allocations fail."""

    def __init__(self, further: int) -> None:
        self.further = further

    def __enter__(self) -> None:
        self.before = resource.getrlimit(resource.RLIMIT_AS)
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        resource.setrlimit(
            resource.RLIMIT_AS, (pages * resource.getpagesize() + self.further, self.before[1])
        )

    def __exit__(self, *_: Any) -> None:
        resource.setrlimit(resource.RLIMIT_AS, self.before)


def _too_long(number: int, frame: FrameType | None) -> None:
    raise TimeoutError(f"more than {SECONDS} s")


def main() -> None:
    """Fuzz, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", type=int, default=10**9)
    parser.add_argument("--seconds", type=float, default=240)
    parser.add_argument("--only", default="", help="readers by their names, with commas")
    parser.add_argument("--keep", type=Path, help="a folder for the files that failed")
    found = fuzz(**vars(parser.parse_args()))
    failed = 0
    for name, counts in found.items():
        bad = {what: n for what, n in counts.items() if what not in ("taken", "refused")}
        failed += sum(bad.values())
        tried, refused, taken = sum(counts.values()), counts["refused"], counts["taken"]
        print(f"{name:14} {tried:6} tried, {refused:6} refused, {taken:6} taken, {sum(bad.values())} failed")
        for what, n in sorted(bad.items(), key=lambda item: -item[1]):
            print(f"    {n} × {what}")
    total = sum(sum(counts.values()) for counts in found.values())
    print(f"{total} damaged files, {failed} failures")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
