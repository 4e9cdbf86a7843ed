"""`autocl tour --train`: meta-train the `quick` learner twice, and see what the backward terms are for."""

from dataclasses import replace
from itertools import count
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from autocl.data.loading import load
from autocl.data.sampler import StreamSampler
from autocl.learner import Learner
from autocl.matrix import TransferMatrix
from autocl.recipes import get_recipe
from autocl.tour.table import percent
from autocl.training.recipe import Recipe
from autocl.training.trainer import train
from autocl.training.validation import validate_streams

VARIANTS = {"with backward terms": True, "without backward terms": False}
CLASSES, BATCHES, SEED = 200, 8, 0
"""Glyphs of the test split, batches of streams over them, and which streams."""


def show(console: Console, folder: Path) -> list[tuple[str, str]]:
    """Train both, measure both on the same streams; returns sections of the page."""
    matrices: dict[str, TransferMatrix] = {}
    for name, acl in VARIANTS.items():
        console.print(f"meta-training {name}", highlight=False)
        recipe = _recipe(acl)
        best = train(recipe, _unused(folder, "quick" if acl else "quick-noacl"))
        matrices[name] = measure(Learner.from_pretrained(best), recipe)
    console.print(_table(matrices))
    return [("Trained just now: two tasks of five drawn glyphs", _section(matrices))]


def measure(learner: Learner, recipe: Recipe) -> TransferMatrix:
    """Mean accuracies over streams of glyphs that neither trained nor chose the learner."""
    glyphs = load("glyphs", "test", size=learner.config.height, classes=CLASSES)
    streams = StreamSampler([glyphs], recipe.streams, recipe.batch_size, SEED)
    found = validate_streams(learner, streams, BATCHES)
    return TransferMatrix(torch.stack([m.values for m in found]).mean(0))


def _unused(folder: Path, name: str) -> Path:
    """A folder for a run: the demo trains afresh each time and keeps what it trained before."""
    places = (folder / f"{name}-{number}" for number in count(1))
    return next(place for place in places if not place.exists())


def _recipe(acl: bool) -> Recipe:
    quick = get_recipe("quick")
    return replace(quick, objective=replace(quick.objective, acl=acl))


def _rows(matrices: dict[str, TransferMatrix]) -> list[tuple[str, list[str]]]:
    rows = []
    for name, m in matrices.items():
        values = [m.values[0, 0], m.values[1, 0], m.values[1, 1]]
        rows.append((name, [percent(float(v)) for v in values]))
    return rows


HEADS = ("task 1 when new", "task 1 at the end", "task 2 at the end")


def _table(matrices: dict[str, TransferMatrix]) -> Table:
    table = Table(title="accuracy (%) on new glyphs, 20 is chance", title_justify="left", box=None)
    for head in ("", *HEADS):
        table.add_column(head, justify="right" if head else "left")
    for name, cells in _rows(matrices):
        table.add_row(name, *cells)
    return table


def _section(matrices: dict[str, TransferMatrix]) -> str:
    heads = "".join(f"<th>{head}</th>" for head in HEADS)
    rows = "".join(
        f"<tr><th>{name}</th>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
        for name, cells in _rows(matrices)
    )
    return (
        "<p>The same recipe twice, with and without the terms of the objective that ask about earlier tasks. "
        "Both learn a new task; only one was ever told that the old one matters. Accuracy in percent on "
        f"glyphs neither has seen; 20 is chance.</p><table class='results'><tr><th></th>{heads}</tr>{rows}"
        "</table>"
    )
