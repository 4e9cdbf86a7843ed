"""`autocl eval`: a learner on tasks made of a user's own images."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from rich.console import Console
from rich.table import Table
from tyro.conf import Positional, arg

from autocl.cli.terminal import Left, say, tabulate
from autocl.data.stream_config import Scenario
from autocl.evaluation.entry import open_learner
from autocl.evaluation.own import evaluate_folder
from autocl.files import write_atomic, write_json


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
    out: Left[Path] = None,
) -> None:
    """Take a learner through tasks of your own images, and print what it knows after each of them.

    Args:
        learner: a name in the zoo (autocl zoo), a file, or the folder of a run.
        data: a folder that holds one folder of images per class.
        tasks: classes of each task, as "cat,dog;car,bus"; default: two classes a task, by name.
        scenario: class: every class has its own label. domain: labels are numbered anew in each task.
        shots: images of each class to learn; the others are asked about.
        runs: how many, each with other images to learn.
        queries: ask about so many images of a task at most; default: all.
        out: write matrix.json and matrix.png to this folder.

    Examples:
        autocl eval everyday --data my_images
        autocl eval runs/quick-seed1 --data my_images --tasks "cat,dog;car,bus" --shots 10 --out measured
    """
    entry = open_learner(learner)
    result = evaluate_folder(
        entry.learner, data, tasks, scenario=scenario, shots=shots, runs=runs, queries=queries
    )
    Console().print(_matrix_table(result.matrix.mean().to_lists(), result.tasks))
    for name, summary in result.metrics().items():
        say(f"{name}: {summary.mean:.1f} ± {summary.std:.1f} %")
    if out is None:
        return
    from autocl.figures.matrix import plot_transfer_matrix
    from autocl.figures.pictures import draw

    side = 2.2 + 0.5 * len(result.tasks)
    picture = draw(plot_transfer_matrix, result.matrix, result.tasks, size=(side + 0.8, side))
    write_atomic(out / "matrix.png", lambda path: _write(path, picture))
    write_json(
        out / "matrix.json",
        {
            "learner": {"name": entry.name, "fingerprint": entry.fingerprint},
            "data": str(data),
            "tasks": result.tasks,
            "scenario": scenario,
            "shots": shots,
            "queries": result.queries,
            "matrix": result.matrix.to_lists(),
        },
    )
    say(f"saved {out / 'matrix.json'} and {out / 'matrix.png'}")


def _matrix_table(values: Sequence[Sequence[float | None]], tasks: Sequence[str]) -> Table:
    rows = [
        (task, *("" if v is None else f"{100 * v:.1f}" for v in line))
        for task, line in zip(tasks, values, strict=True)
    ]
    table = tabulate(("after", *tasks), rows, right=tasks)
    table.title, table.title_justify = "accuracy (%): rows are boundaries, columns tasks", "left"
    return table


def _write(path: str, data: bytes) -> None:
    Path(path).write_bytes(data)
