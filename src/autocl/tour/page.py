"""The page of the tour."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

from autocl.evaluation.trace import WeightFilm
from autocl.figures import plot_learning_rates, weight_film
from autocl.figures.page import INK, heat, inline, inline_svg, write_page
from autocl.figures.plots import COLOURS, quiet
from autocl.pictures import png
from autocl.tour import photographs
from autocl.tour.contest import Contest, Mistake, Standing, best_rival
from autocl.tour.pair import MOMENTS, Half, setting
from autocl.tour.used import Used

MOST_MISTAKES = 24
"""Shown on the page; further ones are counted."""


@dataclass(frozen=True, kw_only=True)
class Told:
    """Everything the page shows."""

    contests: list[tuple[Contest, list[Standing]]]
    wrong: list[Mistake]
    """In the first contest, by the first learner, the surest first."""
    asked: int
    used: Used | None = None
    cut: photographs.Photographs | None = None
    """Of cuttings of photographs, where their network is installed."""
    pair: list[Half] = field(default_factory=list)
    film: WeightFilm | None = None
    seconds: float = 0.0


def write_tour(path: Path, told: Told) -> Path:
    """Write the page."""
    first = told.contests[0][1][0].contestant.name
    # Dark ink on light paper reads better on a page than the other way round.
    shown = [(m, Image.fromarray(255 - m.image)) for m in told.wrong[:MOST_MISTAKES]]
    mistakes = [(m, inline(png(x.resize((56, 56), Image.Resampling.BICUBIC)))) for m, x in shown]
    return write_page(
        path, Path(__file__).with_name("page.html"), told=told, first=first, mistakes=mistakes,
        more=max(0, len(told.wrong) - MOST_MISTAKES), moments=MOMENTS, setting=setting(),
        pairs=photographs.PAIRS, photographs_setting=photographs.setting(),
        contests=[_contest(contest, last) for contest, last in told.contests],
        film=None if told.film is None else inline(weight_film(told.film), "gif"),
        rates=None if told.film is None else inline_svg(_rates(told.film)),
    )  # fmt: skip


def _contest(contest: Contest, last: list[Standing]) -> dict[str, Any]:
    figure = Figure(figsize=(5.2, 3.2), layout="constrained")
    draw_curves(figure.subplots(), last, contest.tasks, ink=INK)
    return {
        "contest": contest,
        "last": last,
        "curves": inline_svg(figure),
        "triangles": [(s.contestant.name, heat(s.matrix, contest.tasks)) for s in last],
        "ours": last[0],
        "constant": best_rival(last, keeping=False),
        "keeping": best_rival(last, keeping=True),
    }


def draw_curves(ax: Axes, last: Sequence[Standing], tasks: Sequence[str], *, ink: str = "black") -> None:
    """Accuracy on everything so far, one line each, named at its end."""
    for i, standing in enumerate(last):
        ours = standing.contestant.learner is not None
        colour = ink if i == len(COLOURS) - 1 else COLOURS[i % len(COLOURS)]  # black would vanish in the dark
        ax.plot(
            tasks, [100 * v for v in standing.seen], marker="o", markersize=4 if ours else 2.5, color=colour,
            linewidth=2.6 if ours else 1.2, linestyle="-" if ours else "--", label=standing.contestant.name,
            zorder=3 if ours else 2,
        )  # fmt: skip
    ax.set_ylim(0, 102)
    ax.set_ylabel("accuracy on all so far (%)", fontsize="small", color=ink)
    ax.set_xlabel("learned last", fontsize="small", color=ink)
    ax.tick_params(colors=ink, labelsize="small")
    ax.spines[["left", "bottom"]].set_color(ink)
    ax.legend(frameon=False, fontsize="small", loc="lower left", ncols=2, labelcolor=ink)
    quiet(ax)
    ax.grid(axis="y", color="#88888844", linewidth=0.8)


def _rates(film: WeightFilm) -> Figure:
    figure = Figure(figsize=(5.2, 2.4), layout="constrained")
    ax = figure.subplots()
    plot_learning_rates(film, ax=ax)
    ax.tick_params(colors=INK)
    ax.xaxis.label.set_color(INK)
    ax.yaxis.label.set_color(INK)
    legend = ax.get_legend()
    for text in (*ax.texts, *(legend.get_texts() if legend else ())):
        text.set_color(INK)
    return figure
