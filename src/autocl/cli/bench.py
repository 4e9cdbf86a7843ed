"""`autocl bench`: from the command line to tables, figures and a report."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Literal

from rich.console import Console
from tyro.conf import Positional, UseAppendAction, arg

from autocl import zoo
from autocl.baselines.base import Diet
from autocl.cli.terminal import Left, say
from autocl.data.eval_streams import Demos
from autocl.errors import AutoclError, InputError
from autocl.estimator.inputs import PHOTOS
from autocl.evaluation import bench as benching
from autocl.evaluation.emergence import read_emergence
from autocl.evaluation.entry import Entry, find_methods, open_learner
from autocl.evaluation.protocol import Options
from autocl.evaluation.protocols import PROTOCOLS
from autocl.evaluation.protocols.backbone import find_backbone_entries
from autocl.evaluation.results import put_lines, read_results
from autocl.evaluation.stored import stored_entries
from autocl.evaluation.table import lines, rich_table, uncovered
from autocl.evaluation.world import table as world_table
from autocl.evaluation.world.run import DRAWS, QUICK_DRAWS, Asked, World, bench_world
from autocl.evaluation.world.sets import Split
from autocl.files import write_text
from autocl.names import resolve

FIGURES = ("emergence", "weights", "report")
NAMES = ", ".join((*PROTOCOLS, "world", *FIGURES, "all"))
WIDE = 120
"""Columns of a terminal that has room for what each number cost."""
COMPARED = ("everyday",)
"""Learners of the world table when none is named."""


def bench(
    table: Annotated[Positional[str], arg(metavar="TABLE", help=f"one of {NAMES}")],
    /,
    *,
    learner: UseAppendAction[tuple[str, ...]] = (),
    method: UseAppendAction[tuple[str, ...]] = (),
    backbone: UseAppendAction[tuple[str, ...]] = (),
    run: UseAppendAction[tuple[Path, ...]] = (),
    runs: Left[int] = None,
    queries: Annotated[Left[int], arg(metavar="N")] = None,
    demos: Annotated[Demos, arg(metavar="HOW")] = "random",
    forward: bool = False,
    quick: bool = False,
    diet: Annotated[Left[Diet], arg(metavar="HOW")] = None,
    embedding: Left[str] = None,
    row: Left[str] = None,
    split: Annotated[Literal["test", "validation"], arg(metavar="NAME")] = "test",
    again: bool = False,
    plan: bool = False,
    out: Left[Path] = None,
) -> None:
    """Compute a table or figure of the paper, print it with the paper's numbers beside ours, and save it.

    Each result is a line of OUT/TABLE.jsonl; it is not measured again unless the learner, the data, an option
    or the table itself changed. Two figures are no tables: emergence (from --run) and weights. "report" draws
    all that was ever measured into OUT as one page, OUT/report/index.html. "all" is everything but world,
    which compares learners with simple rivals on their own features: every line that OUT has, with the runs,
    queries, demos and --forward that it has unless you say otherwise, and the shipped learners of images that
    OUT has no line of.
    Learners are names in the zoo, files, or folders of runs.

    Args:
        learner: whom to measure; default: the whole zoo, unless --method.
        method: a method by name, or "all".
        backbone: frozen network before them (see autocl features).
        run: folder of a training run, for emergence.
        runs: how many; default: as the paper.
        queries: ask so many of each task at most; default: all.
        demos: random, or paper: blocks of the file.
        forward: ask about tasks still to come, too.
        quick: a rough look with few runs and queries.
        diet: --method learns all images (full), or few (demos).
        embedding: learner whose encoder --method uses; default: the first.
        row: the paper's row beside it; default: the one that fits.
        split: world: test, or validation to choose by.
        again: world: measure anew, though weights are the same.
        plan: only say what would be measured, and how long a run took; not for world.
        out: folder; default: results, with --quick results-quick.

    Examples:
        autocl bench split-mnist --learner split-class --method ewc
        autocl bench backbone --backbone lite2 --learner vectors
        autocl bench world --learner everyday --learner photos
    """
    out = Path("results-quick" if quick else "results") if out is None else out
    options = Options(runs=runs, queries=queries, demos=demos, forward=forward, quick=quick)
    table = resolve(table, (*PROTOCOLS, "world", *FIGURES, "all"), "table")
    if table == "emergence" and not run:
        raise InputError("emergence is drawn from the log of a training run: give --run FOLDER")
    console = Console()
    if table == "report":
        _report(out, console)
        return

    def tell(text: str) -> None:
        say(text, style="dim", console=console)

    if table == "world":
        if plan:
            raise InputError("--plan is for the tables of the paper, not for world: leave it out")
        draws = options.n_runs(DRAWS) if runs is not None or not quick else QUICK_DRAWS
        _world(
            learner, out, console, tell, backbones=backbone, embedding=embedding, split=split, draws=draws,
            again=again,
        )  # fmt: skip
        return
    features = backbone or table in (p.name for p in PROTOCOLS.values() if p.behind_backbone)
    shipped = () if learner or method or features or table == "emergence" else zoo.names()
    learners = [open_learner(name) for name in learner] if not features else []
    learners += [e for e in map(open_learner, shipped) if not e.learner.takes_vectors]  # those see images
    encoder = open_learner(embedding) if embedding else next(iter(learners), None)
    entries = [] if features else learners + find_methods(method, diet=diet, encoder=encoder, say=say)
    everything = table == "all" and not (learner or method or backbone)
    stored = {p.name: read_results(out, p.name) for p in PROTOCOLS.values()} if everything else {}
    known = {r.entry for results in stored.values() for r in results}
    if not entries and not run and not features and not known:
        raise InputError(
            "there is nothing to measure, and the zoo is empty: give --learner PATH, --method NAME or "
            "--run FOLDER"
        )

    for protocol in PROTOCOLS.values():
        if table == "all" and protocol.behind_backbone and (learner or method) and not backbone:
            continue  # they read images
        if table in (protocol.name, "all"):
            lines(protocol, (), row=row)  # an unknown row is said before anything is measured
            chosen = entries
            if known and protocol.behind_backbone:
                chosen = []
            elif features or protocol.behind_backbone:
                chosen = find_backbone_entries(protocol, backbone, learner, method, diet=diet, say=say)
            if everything:
                others = {r.entry: None for r in stored[protocol.name]}.keys() - {e.name for e in chosen}
                chosen = [*chosen, *stored_entries(protocol, sorted(others), say=tell)]
            results = []
            for e in chosen:
                kept = e.name in known
                results += benching.run(protocol, e, options, out, as_stored=kept, plan=plan, say=tell)
            if plan:
                continue
            made = lines(protocol, results, row=row)
            console.print(rich_table(made, title=protocol.title, wide=console.width >= WIDE))
            if protocol.references:
                say(protocol.references, console=console)
            for missing in uncovered(protocol, read_results(out, protocol.name)):
                tell(f"the paper's row {missing}")
    if plan:
        return
    if table in ("emergence", "all"):
        put_lines(out / "emergence.jsonl", [read_emergence(f).to_dict() for f in run], key=("name",))
    if table in ("weights", "all"):
        _pictures(learners, out, tell)
    if table == "all":
        _report(out, console)


def _report(out: Path, console: Console) -> None:
    from autocl.figures.report import write_report

    say(f"report: {write_report(out)}", console=console)


def _pictures(learners: Sequence[Entry], out: Path, tell: Callable[[str], None]) -> None:
    from autocl.figures.report import picture_learner

    for entry in learners:
        try:
            tell(f"weights: pictures of {entry.name} are in {picture_learner(entry, out, say=tell)}")
        except AutoclError as reason:
            tell(f"weights: no pictures of {entry.name}: {reason}")


def _world(
    learners: Sequence[str],
    out: Path,
    console: Console,
    tell: Callable[[str], None],
    *,
    backbones: Sequence[str],
    embedding: str | None,
    split: Split,
    draws: int,
    again: bool,
) -> None:
    """Compare learners with simple classifiers on the same features; write table and picture to OUT."""
    asked = [
        Asked(
            learner=name,
            backbone=backbone or (PHOTOS[1] if name == PHOTOS[0] else None),
            embedding=embedding,
        )
        for name in learners or COMPARED
        for backbone in backbones or (None,)
    ]
    say(world_table.world_sets(split), console=console)
    for made in bench_world(asked, out, split=split, draws=draws, again=again, say=tell):
        names = [v.entry for v in made.verdicts]
        title = (
            f"World, {split}: {len(made.rows[0].cells)} cells of {len(made.sets)} image sets, features of "
        )
        wide = console.width >= WIDE
        console.print(world_table.rich_table(made.rows, title + made.features, names, made.times, wide=wide))
        for v in made.verdicts:
            for line in world_table.said(v, made.times):
                say(line, console=console)
        say(f"every cell and a picture: {write_world(made, out)}", console=console)


def write_world(made: World, out: Path) -> Path:
    """OUT/world/SPLIT-FEATURES: the tables as Markdown, and beside them a picture of each learner."""
    from matplotlib import pyplot as plt

    from autocl.figures.plots import plot_world

    stem = f"{made.split}-{made.features}".translate(str.maketrans(":/@", "---"))
    path = out / "world" / f"{stem}.md"
    write_text(path, f"{world_table.markdown(made.rows, made.times)}\n{world_table.cell_markdown(made.rows)}")
    for v in made.verdicts:
        plot_world(v)
        plt.savefig(path.with_name(f"{stem}-{v.entry}.png"), dpi=120)
        plt.close()
    return path
