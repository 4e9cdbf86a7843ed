"""`autocl bench` and `autocl eval`: from the command line to tables, figures and a report."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.table import Table

from autocl import zoo
from autocl.data.fixed import Demos
from autocl.data.stream_config import Scenario
from autocl.errors import AutoclError, InputError
from autocl.evaluation import bench as benching
from autocl.evaluation.emergence import read_emergence
from autocl.evaluation.entry import Entry, method_entry, open_learner
from autocl.evaluation.lines import put_lines
from autocl.evaluation.own import evaluate_folder
from autocl.evaluation.protocol import Options
from autocl.evaluation.protocols import PROTOCOLS
from autocl.evaluation.table import lines, rich_table
from autocl.files import write_atomic, write_json
from autocl.methods.base import Diet, method_names

FIGURES = ("emergence", "weights", "report")
NAMES = ", ".join((*PROTOCOLS, *FIGURES, "all"))
WIDE = 120
"""Columns of a terminal that has room for what each number cost."""


def bench(
    table: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="TABLE", help=f"one of {NAMES}")],
    /,
    *,
    learner: tyro.conf.UseAppendAction[tuple[str, ...]] = (),
    method: tyro.conf.UseAppendAction[tuple[str, ...]] = (),
    run: tyro.conf.UseAppendAction[tuple[Path, ...]] = (),
    runs: int | None = None,
    queries: int | None = None,
    demos: Demos = "random",
    forward: bool = False,
    quick: bool = False,
    diet: Diet | None = None,
    embedding: str | None = None,
    rivals: Path | None = None,
    row: str | None = None,
    out: Path | None = None,
) -> None:
    """Compute a table or figure of the paper, print it with the paper's numbers beside ours, and save it.

    Each result is a line of OUT/TABLE.jsonl; it is not measured again unless the learner, the data, an option
    or autocl changed. Two figures are no tables: emergence (from --run) and weights. "report" draws all that
    was ever measured into OUT as one page, OUT/report/index.html. "all" is everything.

    Args:
        learner: a file, the folder of a run, or a name in the zoo; may be given several times. Default: the
            whole zoo, unless --method is given.
        method: a method by name, or "all"; may be given several times.
        run: folder of a training run, for emergence; may be given several times.
        runs: how many; default: as the paper.
        queries: ask at most so many of each task; default: the whole test set.
        demos: random: drawn by the number of the run. paper: blocks of the file, as the authors' code.
        forward: ask about tasks still to come, too.
        quick: a rough look with few runs and queries.
        diet: what --method is fed of each task: all training images (full) or the learner's demos.
        embedding: the learner whose encoder methods on frozen features use; default: the first --learner.
        rivals: folder with meta-trained rivals, NAME.safetensors or the run of `autocl train NAME` in NAME;
            default: those that ship.
        row: the paper's row to compare with; default: the one that says of itself what the learner's file
            says, field by field.
        out: folder of results; default: results, or results-quick with --quick.
    """
    out = Path("results-quick" if quick else "results") if out is None else out
    options = Options(runs=runs, queries=queries, demos=demos, forward=forward, quick=quick)
    if table not in (*PROTOCOLS, *FIGURES, "all"):
        raise InputError(f"there is no table {table!r}: choose one of {NAMES}")
    if table == "emergence" and not run:
        raise InputError("emergence is drawn from the log of a training run: give --run FOLDER")
    console = Console()
    if table == "report":
        _report(out, console)
        return
    names = learner if learner or method or table == "emergence" else tuple(zoo.names())
    learners = [open_learner(name) for name in names]
    encoder = open_learner(embedding) if embedding else next(iter(learners), None)
    entries = learners + find_methods(method, diet=diet, encoder=encoder, rivals=rivals, say=console.print)
    if not entries and not run:
        raise InputError(
            "there is nothing to measure, and the zoo is empty: give --learner PATH, --method NAME or "
            "--run FOLDER"
        )

    def say(text: str) -> None:
        console.print(text, style="dim", highlight=False, soft_wrap=True)

    for protocol in PROTOCOLS.values():
        if table in (protocol.name, "all"):
            lines(protocol, (), row=row)  # an unknown row is said before anything is measured
            results = [r for e in entries for r in benching.run(protocol, e, options, out, say=say)]
            made = lines(protocol, results, row=row)
            console.print(rich_table(made, title=protocol.title, wide=console.width >= WIDE))
    if table in ("emergence", "all"):
        put_lines(out / "emergence.jsonl", [read_emergence(f).to_dict() for f in run], key=("name",))
    if table in ("weights", "all"):
        _pictures(learners, out, say)
    if table == "all":
        _report(out, console)


def _report(out: Path, console: Console) -> None:
    from autocl.figures.report import write_report

    console.print(f"report: {write_report(out)}", soft_wrap=True)


def evaluate(
    learner: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="LEARNER")],
    /,
    *,
    data: Path,
    tasks: str | None = None,
    scenario: Scenario = "class",
    shots: int = 5,
    runs: int = 5,
    queries: int | None = None,
    out: Path | None = None,
) -> None:
    """Take a learner through tasks of your own images, and print what it knows at every boundary.

    Args:
        learner: a file, the folder of a run, or a name in the zoo.
        data: a folder that holds one folder of images per class.
        tasks: classes of each task, as "cat,dog;car,bus"; default: two classes a task, by name.
        scenario: class: every class has its own label. domain: labels are numbered anew in each task.
        shots: demos per class; the other images are asked about.
        runs: how many, each with other demos.
        queries: ask at most so many of each task.
        out: write matrix.json and matrix.png to this folder.
    """
    entry = open_learner(learner)
    result = evaluate_folder(
        entry.learner, data, tasks, scenario=scenario, shots=shots, runs=runs, queries=queries
    )
    console = Console()
    console.print(_matrix_table(result.matrix.mean().to_lists(), result.tasks))
    for name, summary in result.metrics().items():
        console.print(f"{name}: {summary.mean:.1f} ± {summary.std:.1f} %", highlight=False)
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
    console.print(f"saved {out / 'matrix.json'} and {out / 'matrix.png'}", soft_wrap=True)


def find_methods(
    names: Sequence[str],
    *,
    diet: Diet | None = None,
    encoder: Entry | None = None,
    rivals: Path | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> list[Entry]:
    """Methods by name; "all" means all that can be made from what was given, and says which cannot.

    Args:
        names: as in the registry, or "all".
        diet: what they are fed; default: each its own.
        encoder: the learner whose encoder and images methods on frozen features use.
        rivals: folder with meta-trained rivals.
        say: is told what is left out.
    """
    entries = []
    for name in method_names() if "all" in names else names:
        common: dict[str, Any] = {} if diet is None else {"diet": diet}
        tries: list[dict[str, Any]] = [{}]
        if encoder is not None:
            tries.append(
                {
                    "embedding": encoder.in_context.features,
                    "load_set": encoder.load,
                    "features_of": encoder.name,
                }
            )
        if file := _rival_file(name, rivals):
            tries = [{"rival": file}]
        reasons: list[InputError] = []
        for extra in tries:
            try:
                entries.append(method_entry(name, **common, **extra))
                break
            except InputError as error:
                reasons.append(error)
        else:
            if "all" not in names:
                raise reasons[0]
            say(f"without {name}: {reasons[0]}")
    return entries


def _rival_file(name: str, folder: Path | None) -> Path | None:
    """What a folder of rivals holds for a method."""
    places = [] if folder is None else [folder / f"{name}.safetensors", folder / name / "best.safetensors"]
    return next((place for place in places if place.is_file()), None)


def _pictures(learners: Sequence[Entry], out: Path, say: Callable[[str], None]) -> None:
    from autocl.figures.pictures import picture_learner

    for entry in learners:
        try:
            say(f"weights: pictures of {entry.name} are in {picture_learner(entry, out, say=say)}")
        except AutoclError as reason:
            say(f"weights: no pictures of {entry.name}: {reason}")


def _matrix_table(values: list[list[float | None]], tasks: Sequence[str]) -> Table:
    table = Table(title="accuracy (%): rows are boundaries, columns tasks", title_justify="left")
    for heading in ("after", *tasks):
        table.add_column(heading, justify="left" if heading == "after" else "right")
    for task, line in zip(tasks, values, strict=True):
        table.add_row(task, *("" if v is None else f"{100 * v:.1f}" for v in line))
    return table


def _write(path: str, data: bytes) -> None:
    Path(path).write_bytes(data)


def bench_main(args: Sequence[str]) -> None:
    """Run `autocl bench` with these arguments."""
    tyro.cli(bench, args=args or ["--help"], prog="autocl bench")


def eval_main(args: Sequence[str]) -> None:
    """Run `autocl eval` with these arguments."""
    tyro.cli(evaluate, args=args or ["--help"], prog="autocl eval")
