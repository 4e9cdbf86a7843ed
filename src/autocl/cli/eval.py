"""`autocl eval`: a learner on tasks made of a user's own images, beside simple rivals."""

from pathlib import Path
from typing import Annotated

from rich.console import Console
from tyro.conf import Positional, arg

from autocl.cli.terminal import Left, say, tabulate
from autocl.data.stream_config import Scenario
from autocl.encoders.backbones import get_backbone
from autocl.estimator.inputs import PHOTOS
from autocl.evaluation.entry import Entry, open_learner
from autocl.evaluation.own import OwnResult, evaluate_folder
from autocl.files import write_bytes, write_json

LONGEST = 24
"""Letters of a task's name that the picture has room for; with longer ones tasks are numbered."""
COLUMNS = ("when new", "now", "at once")


def evaluate(
    learner: Annotated[Positional[str], arg(metavar="LEARNER")],
    /,
    *,
    data: Path,
    tasks: Left[str] = None,
    scenario: Scenario = "class",
    shots: int = 5,
    runs: int = 5,
    queries: Left[int] = None,
    backbone: Left[str] = None,
    out: Left[Path] = None,
) -> None:
    """Measure a learner, and simple rivals on the same features, on tasks of your own images.

    "when new": right after a class was learned, among those known then. "now": at the end, among all.
    "at once": by a fresh learner that saw all classes mixed. So when new minus at once is what more classes
    to choose from cost, and at once minus now what was forgotten.

    Args:
        learner: a name in the zoo (autocl zoo), photos, a file, or the folder of a run.
        data: a folder that holds one folder of images per class.
        tasks: classes of each task, as "cat,dog;car,bus"; default: two classes a task, by name.
        scenario: class: every class has its own label. domain: labels are numbered anew in each task.
        shots: images of each class to learn; the others are asked about.
        runs: how many, each with other images to learn.
        queries: ask about so many images of a task at most; default: all.
        backbone: a frozen network for a learner of vectors: lite0, lite1, lite2, timm:NAME, …
        out: write eval.json and matrix.png to this folder.

    Examples:
        autocl eval everyday --data my_images
        autocl eval photos --data my_photos --shots 10
        autocl eval runs/quick-seed1 --data my_images --tasks "cat,dog;car,bus" --out measured
    """
    title, (file, network) = learner, PHOTOS if learner == "photos" else (learner, backbone)
    entry = open_learner(file)
    result = evaluate_folder(
        entry.learner, data, tasks, name=title if title == "photos" else entry.name, scenario=scenario,
        shots=shots, runs=runs, queries=queries, backbone=None if network is None else get_backbone(network),
    )  # fmt: skip
    show(result, str(data), runs)
    if out is not None:
        save(result, entry, data, out)


def show(result: OwnResult, data: str, runs: int) -> None:
    """Print what was measured."""
    console = Console()
    say(
        f"{data}: {len(result.classes)} classes in {len(result.tasks)} tasks, {result.shots} demos of each, "
        f"{sum(result.queries):,} images asked, {runs} runs"
    )
    rows = [
        (
            name + ("*" if known.keeps_demos else ""),
            str(known.average),
            f"{100 * float(known.new.mean()):.1f}",
            f"{100 * float(known.at_once.mean()):.1f}",
            f"{known.state_bytes / 1000:,.0f} KB",
        )
        for name, known in result.known.items()
    ]
    headings = ("average accuracy (%)", "now", "when new", "at once", "kept")
    console.print(tabulate(headings, rows, right=headings[1:]))
    say("* keeps every demo. All rivals see the same features.", style="dim")
    ours = result.ours
    each = zip(result.classes, ours.new.mean(0), ours.now.mean(0), ours.at_once.mean(0), strict=True)
    cells = [(label, *(f"{100 * float(v):.1f}" for v in values)) for label, *values in each]
    console.print(tabulate(("class", *COLUMNS), cells, right=COLUMNS))
    say(
        # Rounded before the sign: a loss of nothing is +0.0.
        f"from when new to now: {0 - round(ours.choice, 1):+.1f} points for more classes to choose from, "
        f"{0 - round(ours.forgetting, 1):+.1f} for having learned them one task after the other"
    )


def save(result: OwnResult, entry: Entry, data: Path, out: Path) -> None:
    """Write everything as JSON, and the learner's transfer matrix as a picture."""
    from autocl.figures.plots import plot_transfer_matrix
    from autocl.figures.report import draw

    side = 2.2 + 0.5 * len(result.tasks)
    names = result.tasks if max(map(len, result.tasks)) <= LONGEST else None
    picture = draw(plot_transfer_matrix, result.matrix, names, size=(side + 0.8, side))
    write_bytes(out / "matrix.png", picture)
    write_json(
        out / "eval.json",
        {
            "learner": {"name": entry.name, "fingerprint": entry.fingerprint},
            "data": str(data),
            "tasks": result.tasks,
            "classes": result.classes,
            "scenario": result.scenario,
            "shots": result.shots,
            "queries": result.queries,
            "methods": {
                name: {
                    "new": known.new.tolist(),
                    "now": known.now.tolist(),
                    "at once": known.at_once.tolist(),
                    "matrix": known.matrix.to_lists(),
                    "state_bytes": known.state_bytes,
                }
                for name, known in result.known.items()
            },
        },
    )
    say(f"saved {out / 'eval.json'} and {out / 'matrix.png'}")
