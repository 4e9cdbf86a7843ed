"""`autocl bench`: from the command line to tables, figures and a report."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

from rich.console import Console
from tyro.conf import Positional, UseAppendAction, arg

from autocl import zoo
from autocl.baselines.base import Diet
from autocl.cli.parsing import Left
from autocl.cli.terminal import say
from autocl.data.fixed import Demos
from autocl.errors import AutoclError, InputError
from autocl.evaluation import bench as benching
from autocl.evaluation.find import find_methods
from autocl.evaluation.protocol import Options
from autocl.evaluation.protocols import PROTOCOLS
from autocl.evaluation.protocols.emergence import read_emergence
from autocl.evaluation.subject import Subject, open_learner
from autocl.evaluation.table import rich_table
from autocl.files import write_json
from autocl.names import resolve

FIGURES = ("emergence", "weights")
WIDE = 120
"""Columns of a terminal that has room for what each number cost."""


def bench(
    table: Annotated[Positional[str], arg(metavar="TABLE")],
    /,
    *,
    learner: UseAppendAction[tuple[str, ...]] = (),
    method: UseAppendAction[tuple[str, ...]] = (),
    run: UseAppendAction[tuple[Path, ...]] = (),
    runs: Left[int] = None,
    queries: Left[int] = None,
    demos: Demos = "random",
    forward: bool = False,
    quick: bool = False,
    diet: Left[Diet] = None,
    embedding: Left[str] = None,
    vectors: Left[Path] = None,
    row: Left[str] = None,
    out: Left[Path] = None,
) -> None:
    """Compute a table or figure of the paper, print it with the paper's numbers beside ours, and save it.

    Tables: two-task, two-task-ood, split-mnist, shots, meta-validation, split-omniglot, diverse, vit, shapes.
    Figures: emergence (from --run), weights. What was measured into OUT is not measured again.

    Args:
        table: which one, or "all".
        learner: a name in the zoo, a file, or the folder of a run. Default: the whole zoo, unless --method.
        method: a method by name, or "all".
        run: folder of a training run, for emergence.
        runs: how many; default: as the paper.
        queries: ask so many of each task at most; default: all.
        demos: random, or paper: blocks of the file, as the authors' code.
        forward: ask about tasks still to come, too.
        quick: a rough look with few runs and queries.
        diet: what --method learns of each task: all images (full), or the learner's few (demos).
        embedding: the learner whose encoder --method uses; default: the first --learner.
        vectors: folder with feature vectors of the image sets (vit).
        row: the paper's row to compare with; default: by the learner's recipe.
        out: folder of results; default: results, or results-quick with --quick.

    Examples:
        autocl bench split-mnist --learner split-class
        autocl bench split-mnist --method ewc --method adam
        autocl bench all --quick
    """
    console = Console()
    out = Path("results-quick" if quick else "results") if out is None else out
    options = Options(runs=runs, queries=queries, demos=demos, forward=forward, quick=quick)
    table = resolve(table, (*PROTOCOLS, *FIGURES, "all"), "table")
    if table == "emergence" and not run:
        raise InputError("emergence is drawn from the log of a training run: give --run FOLDER")
    names = learner if learner or method or table == "emergence" else tuple(zoo.names())
    learners = [open_learner(name, vectors=vectors) for name in names]
    encoder = open_learner(embedding) if embedding else next(iter(learners), None)
    subjects = learners + find_methods(method, diet=diet, encoder=encoder, say=say)
    if not subjects and not run:
        raise InputError(
            "there is nothing to measure, and the zoo is empty: give --learner PATH, --method NAME or "
            "--run FOLDER"
        )

    def tell(text: str) -> None:
        say(text, style="dim", console=console)

    for protocol in PROTOCOLS.values():
        if table in (protocol.name, "all"):
            outcomes = [
                o for s in subjects for o in benching.run(protocol, s, options, out, row=row, say=tell)
            ]
            made = benching.table_of(protocol, outcomes)
            console.print(rich_table(made, title=protocol.title, wide=console.width >= WIDE))
    if table in ("emergence", "all"):
        for folder in run:
            _emergence(folder, out, tell)
    if table in ("weights", "all"):
        _pictures(learners, out, tell)
    from autocl.figures.report import write_report

    say(f"report: {write_report(out)}", console=console)


def _pictures(learners: Sequence[Subject], out: Path, tell: Callable[[str], None]) -> None:
    from autocl.figures.pictures import picture_learner

    for subject in learners:
        try:
            tell(f"weights: pictures of {subject.name} are in {picture_learner(subject, out, say=tell)}")
        except AutoclError as reason:
            tell(f"weights: no pictures of {subject.name}: {reason}")


def _emergence(folder: Path, out: Path, tell: Callable[[str], None]) -> None:
    found = read_emergence(folder)
    path = out / "emergence" / f"{found.name}.json"
    write_json(path, found.to_dict())
    tell(f"emergence: {path}")
