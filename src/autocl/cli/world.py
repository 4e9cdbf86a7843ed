"""`autocl bench world`: is this better than a simple classifier on the same features?"""

from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console

from autocl.cli.terminal import say
from autocl.estimator.inputs import PHOTOS
from autocl.evaluation.world.run import Asked, World, bench_world
from autocl.evaluation.world.sets import Split
from autocl.evaluation.world.table import cell_markdown, markdown, rich_table, said, world_sets
from autocl.files import write_text

DEFAULT = ("everyday",)
WIDE = 120
"""Columns of a terminal that has room for all of the table."""


def world(
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
    """Measure, print, and write table and picture to OUT."""
    asked = [
        Asked(learner=PHOTOS[0], backbone=backbone or PHOTOS[1], name="photos")
        if name == "photos"
        else Asked(learner=name, backbone=backbone, embedding=embedding)
        for name in learners or DEFAULT
        for backbone in backbones or (None,)
    ]
    say(world_sets(split), console=console)
    for made in bench_world(asked, out, split=split, draws=draws, again=again, say=tell):
        names = [v.entry for v in made.verdicts]
        title = (
            f"World, {split}: {len(made.rows[0].cells)} cells of {len(made.sets)} image sets, features of "
        )
        console.print(
            rich_table(made.rows, title + made.features, names, made.times, wide=console.width >= WIDE)
        )
        for v in made.verdicts:
            for line in said(v, made.times):
                say(line, console=console)
        say(f"every cell and a picture: {write_world(made, out)}", console=console)


def write_world(made: World, out: Path) -> Path:
    """OUT/world/SPLIT-FEATURES: the tables as Markdown, and beside them a picture of each learner."""
    from matplotlib import pyplot as plt

    from autocl.figures.world import plot_world

    stem = f"{made.split}-{made.features}".translate(str.maketrans(":/@", "---"))
    path = out / "world" / f"{stem}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, f"{markdown(made.rows, made.times)}\n{cell_markdown(made.rows)}")
    for v in made.verdicts:
        plot_world(v)
        plt.savefig(path.with_name(f"{stem}-{v.entry}.png"), dpi=120)
        plt.close()
    return path
