"""`autocl bench world`: is this better than a simple classifier on the same features?"""

from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console

from autocl.cli.terminal import say
from autocl.estimator.backbone import PHOTOS
from autocl.evaluation.world.run import Asked, bench_world
from autocl.evaluation.world.sets import Split
from autocl.evaluation.world.table import cell_markdown, markdown, rich_table, said, world_sets

DEFAULT = ("everyday",)
WIDE = 120
"""Columns of a terminal that has room for all of the table."""


def world(
    learners: Sequence[str],
    embedding: str | None,
    out: Path,
    console: Console,
    tell: Callable[[str], None],
    *,
    split: Split,
    draws: int,
    again: bool,
) -> None:
    """Measure, print, and write table and picture to OUT."""
    asked = [
        Asked(learner=PHOTOS[0], features=embedding or PHOTOS[1], name="photos")
        if name == "photos"
        else Asked(learner=name, features=embedding)
        for name in learners or DEFAULT
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
        path = out / f"world-{split}-{made.features.replace(':', '-').replace('/', '-')}.md"
        path.write_text(markdown(made.rows, made.times) + "\n" + cell_markdown(made.rows), encoding="utf-8")
        say(f"every cell: {path}", console=console)
