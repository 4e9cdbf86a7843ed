"""Streams of up to a million demos: accuracy, largest number in the state, time and bytes at each mark.

python -m benchmarks.lifelong                      every shipped learner, and means, ridge and k-NN
python -m benchmarks.lifelong everyday vectors     these alone; the others' lines stay
python -m benchmarks.lifelong --anew               measure streams that are finished already once more
python -m benchmarks.lifelong --show               only draw the picture and print the table

Three streams of MNIST, drawn with replacement from 10,000 *training* images; 500 *test* images only ask, and
nothing is tuned:
  stationary  all classes, at random
  drift       the digits are turned, by 15° more in each decade of demos; queries as the latest demos
  return      1,000 demos of all classes, 100,000 of the first half of them, then all again
Learners of fewer than ten outputs get the first digits. means, ridge and k-NN stand on split-class's encoder,
`vectors` on the pixels. Every learner has so many seconds of the processor for each stream and stops there.
A stream is stored when it ends, so a command that was interrupted goes on where it was: streams that the same
weights have taken to their end (or to a state that was not finite) are not measured again.
"""

import argparse
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypedDict

import torch
from torch import Tensor
from torch.nn import functional as F

from autocl import zoo
from autocl.data import load
from autocl.data.imageset import ImageSet
from autocl.errors import StateError
from autocl.evaluation.results import put_lines, read_lines
from autocl.learner import Learner, LearnerState, ReadoutLearner
from autocl.learner.config import ReadoutLearnerConfig
from autocl.learner.find import find_learner
from autocl.readouts import ReadoutConfig

LINES, PICTURE = Path("results/lifelong.jsonl"), Path("docs/lifelong.png")
BASELINES = ("means", "ridge", "knn")
STREAMS = ("stationary", "drift", "return")
MARKS = (100, 300, 1000, 3000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
GAP = (1000, 101_000)
"""return: demos between which half of the classes are away."""
RETURN_MARKS = (1000, 3000, 10_000, 30_000, 101_000, 101_100, 102_000)
CHUNK = 100
"""Demos of one call; online heads make their passes over one call."""
SHOWN, TURNED, ASKED = 1000, 200, 50
"""Images of each class: demos, demos at each angle of the drift, queries."""
ANGLES = (0, 15, 30, 45)
DIVERGED = "its state was no longer finite and was refused"


class Point(TypedDict):
    """What was measured at a mark."""

    demos: int
    accuracy: float
    """Percent, over all classes; return: over those that are away."""
    largest: float
    """Absolute value in the state."""
    ms: float
    """Of the processor for one demo, since the mark before."""
    state_bytes: int


class Line(TypedDict):
    """One learner in one stream."""

    learner: str
    stream: str
    fingerprint: str
    classes: int
    points: list[Point]
    stopped: str
    """Why there is no later mark; empty: it reached the last."""


class Digits:
    """Features of the images a learner meets: by row and angle, with labels."""

    def __init__(self, learner: Learner, images: ImageSet, classes: int, each: int, turned: int) -> None:
        starts = torch.as_tensor(images.starts)[:classes, None]
        rows = [(starts + torch.arange(n)).flatten() for n in (each, turned, turned, turned)]
        self.labels = torch.arange(classes).repeat_interleave(each)
        self.features = [_encode(learner, images, r, a) for r, a in zip(rows, ANGLES, strict=True)]
        self.turned_labels = torch.arange(classes).repeat_interleave(turned)

    def draw(self, n: int, angle: int, classes: int, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        """Features [1, n, F] and labels [1, n] of the first classes."""
        labels = self.turned_labels if angle else self.labels
        rows = torch.randint(int((labels < classes).sum()), (n,), generator=rng)
        return self.features[angle][rows][None], labels[rows][None]


def _encode(learner: Learner, images: ImageSet, rows: Tensor, angle: int) -> Tensor:
    parts, config = [], learner.config
    as_vectors = config.height == 1
    for part in rows.split(500):
        channels = 1 if as_vectors else config.channels
        x = images.take(part, channels=channels, standardise=config.standardise)
        if angle:
            c, s = math.cos(math.radians(angle)), math.sin(math.radians(angle))
            turn = torch.tensor([[[c, -s, 0.0], [s, c, 0.0]]]).expand(len(x), -1, -1)
            grid = F.affine_grid(turn, list(x.shape), align_corners=False)
            x = F.grid_sample(x, grid, padding_mode="border", align_corners=False)
        parts.append(x.flatten(1) if as_vectors else learner.encode(x))
    return torch.cat(parts)


def contestant(name: str, size: int) -> Learner:
    """A shipped learner by name, or a statistic on split-class's encoder."""
    if name in BASELINES:
        base = find_learner("split-class")
        config = ReadoutLearnerConfig(
            n_classes=10, channels=base.config.channels, height=size, width=size,
            readout=ReadoutConfig(kind=name), unit_features=True,
        )  # fmt: skip
        return ReadoutLearner(config, base.encoder).eval()
    learner = find_learner(name)
    return learner.with_features(size * size) if learner.config.height == 1 else learner


def angle_at(stream: str, demos: int) -> int:
    """Place in ANGLES of the demos behind the first so many."""
    return 0 if stream != "drift" else min(len(ANGLES) - 1, max(0, len(str(max(demos, 1))) - 3))


def run(name: str, stream: str, learner: Learner, shown: Digits, asked: Digits, budget: float) -> Line:
    """Take one learner through one stream."""
    classes = int(shown.labels.max()) + 1
    state, rng = learner.initial_state(1, classes), torch.Generator().manual_seed(0)
    points: list[Point] = []
    stopped, spent, done, at_last = "", 0.0, 0, (0, 0.0)
    for mark in RETURN_MARKS if stream == "return" else MARKS:
        while done < mark and not stopped:
            n = min(CHUNK, mark - done)
            away = stream == "return" and GAP[0] <= done < GAP[1]
            f, y = shown.draw(n, angle_at(stream, done), classes // 2 if away else classes, rng)
            start = time.process_time()
            try:
                state = learner.learn_features(f, y, state)
            except (StateError, torch.linalg.LinAlgError):  # type: ignore[attr-defined]
                stopped = f"{DIVERGED} after {done:,} demos"
            spent += time.process_time() - start
            done += n
            if spent > budget and done < mark and not stopped:
                stopped = f"stopped after {done:,} demos, {budget:.0f} s of the processor"
        if stopped:
            break
        correct = _ask(learner, state, asked, angle_at(stream, done - 1), classes // 2 * (stream == "return"))
        points.append(
            {
                "demos": done,
                "accuracy": round(100 * correct, 1),
                "largest": _largest(state),
                "ms": round(1e3 * (spent - at_last[1]) / (done - at_last[0]), 4),
                "state_bytes": state.nbytes,
            }
        )
        at_last = done, spent
        print(f"{name:<22}{stream:<12}{done:>9,}  {points[-1]['accuracy']:5.1f} %", flush=True)
    return {
        "learner": name, "stream": stream, "fingerprint": learner.fingerprint(), "classes": classes,
        "points": points, "stopped": stopped,
    }  # fmt: skip


def _ask(learner: Learner, state: LearnerState, asked: Digits, angle: int, first: int) -> float:
    """Share of right answers to the queries of the classes from `first` on."""
    labels = asked.turned_labels if angle else asked.labels
    rows = labels >= first
    logits = learner.predict_features(asked.features[angle][rows][None], state)[0]
    return float((logits.argmax(-1) == labels[rows]).double().mean())


def _largest(state: LearnerState) -> float:
    largest = max(float(t.abs().max()) for t in state.tensors.values() if t.numel() and t.is_floating_point())
    return float(f"{largest:.3g}")


def finished(name: str, learner: Learner) -> set[str]:
    """Streams that these weights have taken to their end."""
    return {
        line["stream"]
        for line in (read_lines(LINES, Line) if LINES.exists() else [])
        if (line["learner"], line["fingerprint"]) == (name, learner.fingerprint())
        and (not line["stopped"] or DIVERGED in line["stopped"])
    }


def measure(names: list[str], budget: float, *, anew: bool = False) -> None:
    """Take learners through the streams they have not finished; store what was found, stream by stream."""
    train, test = load("mnist", "train"), load("mnist", "test")
    for name in names:
        learner = contestant(name, train.images.shape[-1])
        done = set() if anew else finished(name, learner)
        todo = [stream for stream in STREAMS if stream not in done]
        if not todo:
            continue
        with torch.inference_mode():
            classes = 10 if learner.grows else min(10, learner.config.n_classes)
            shown = Digits(learner, train, classes, SHOWN, TURNED)
            asked = Digits(learner, test, classes, ASKED, ASKED)
            for stream in todo:
                line = run(name, stream, learner, shown, asked, budget)
                put_lines(LINES, [line], key=("learner", "stream"))


def table() -> Iterator[str]:
    """Markdown: accuracy at marks of the stationary stream, what the last one cost, the other streams."""
    by_stream: dict[str, dict[str, Line]] = {}
    for line in read_lines(LINES, Line):
        by_stream.setdefault(line["stream"], {})[line["learner"]] = line
    shown = [100, 1000, 10_000, 100_000, 1_000_000]
    head = [f"{n:,}" for n in shown]
    head += ["last mark", "largest number", "ms a demo", "drift, last", "away", "back"]
    yield "| learner (classes) | " + " | ".join(head) + " |"
    yield "|---|" + "---:|" * len(head)
    for name, line in sorted(by_stream.get("stationary", {}).items(), key=lambda item: _order(item[1])):
        at = {p["demos"]: p for p in line["points"]}
        last = line["points"][-1] if line["points"] else None
        cells = [f"{at[n]['accuracy']:.1f}" if n in at else "–" for n in shown]
        cells += [f"{last['demos']:,}", f"{last['largest']:.1e}", f"{last['ms']:.2f}"] if last else ["–"] * 3
        drift = by_stream.get("drift", {}).get(name)
        cells.append(f"{drift['points'][-1]['accuracy']:.1f}" if drift and drift["points"] else "–")
        back = {p["demos"]: p for p in by_stream.get("return", {}).get(name, {"points": []})["points"]}
        cells += [f"{back[n]['accuracy']:.1f}" if n in back else "–" for n in (GAP[1], RETURN_MARKS[-1])]
        note = "*" if DIVERGED in line["stopped"] else ""
        yield f"| `{name}` ({line['classes']}){note} | " + " | ".join(cells) + " |"


def _order(line: Line) -> tuple[int, float]:
    """More classes first, then who knows most at the end."""
    return -line["classes"], -(line["points"][-1]["accuracy"] if line["points"] else 0.0)


def draw() -> None:
    """Accuracy over the number of demos, one panel a stream; readable on light and dark pages."""
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    found = [line for line in read_lines(LINES, Line) if line["classes"] == 10]
    names = sorted({line["learner"] for line in found})
    colour: Callable[[int], tuple[float, ...]] = colormaps["tab20"]
    figure = Figure(figsize=(11, 4), layout="constrained")
    panels = dict(zip(STREAMS, figure.subplots(1, 3, sharey=True), strict=True))
    for line in found:
        points, ax = line["points"], panels[line["stream"]]
        which = names.index(line["learner"])
        ax.plot([p["demos"] for p in points], [p["accuracy"] for p in points], label=line["learner"],
                color=colour(which % 20), marker="o", markersize=3,
                linestyle=":" if line["learner"] in BASELINES else "-")  # fmt: skip
        if DIVERGED in line["stopped"] and points:
            ax.plot(points[-1]["demos"], points[-1]["accuracy"], "x", color=colour(which % 20), markersize=9)
    titles = {"stationary": "stationary", "drift": "digits turn 15° a decade",
              "return": "classes away from 1,000 to 101,000"}  # fmt: skip
    grey = "#808080"  # seen on white and on black
    for stream, ax in panels.items():
        ax.set_xscale("log")
        ax.set_title(titles[stream], color=grey)
        ax.set_xlabel("demos", color=grey)
        ax.tick_params(colors=grey)
        ax.grid(color=grey, alpha=0.3)
        ax.patch.set_alpha(0)
        for spine in ax.spines.values():
            spine.set_color(grey)
    panels["stationary"].set_ylabel("accuracy (%)", color=grey)
    figure.legend(*panels["stationary"].get_legend_handles_labels(), loc="outside lower center", ncols=7,
                  labelcolor=grey, frameon=False)  # fmt: skip
    figure.savefig(PICTURE, dpi=110, transparent=True)


def main() -> None:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("learners", nargs="*", help="of the zoo, or means, ridge, knn; default: all")
    parser.add_argument("--budget", type=float, default=60, help="seconds of the processor a stream")
    parser.add_argument("--anew", action="store_true", help="measure finished streams, too")
    parser.add_argument("--show", action="store_true", help="measure nothing")
    args = parser.parse_args()
    if not args.show:
        torch.set_num_threads(1)
        # photos is for features of a frozen network; MNIST's pixels are none.
        shipped = [name for name in zoo.names() if name != "photos"]
        measure(args.learners or [*BASELINES, *shipped], args.budget, anew=args.anew)
    draw()
    print("\n".join(table()))


if __name__ == "__main__":
    main()
