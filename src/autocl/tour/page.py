"""The demo's page: one HTML file with everything in it."""

import base64
import html
from collections.abc import Sequence
from io import BytesIO, StringIO
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure
from PIL import Image

from autocl.evaluation.weights import WeightFilm
from autocl.figures import plot_learning_rates, weight_film
from autocl.figures.style import COLOURS, SEQUENTIAL, quiet
from autocl.files import write_atomic
from autocl.tour.contest import Standing
from autocl.tour.mistakes import Mistake
from autocl.tour.table import percent

STYLE = (Path(__file__).parent / "page.css").read_text(encoding="utf-8")
MOST_MISTAKES = 48
"""Shown on the page; further ones are counted."""


def write_page(path: Path, title: str, sections: Sequence[tuple[str, str]]) -> None:
    """Write a page of (heading, HTML) sections."""
    body = "\n".join(f"<section><h2>{html.escape(head)}</h2>\n{text}</section>" for head, text in sections)
    text = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style>'
        f"<main><h1>{html.escape(title)}</h1>\n{body}</main></html>\n"
    )

    def write(name: str) -> None:
        Path(name).write_text(text, encoding="utf-8")

    write_atomic(path, write)


def result_table(last: Sequence[Standing], tasks: Sequence[str]) -> str:
    """Average accuracy after each task, as a table with bars for the end."""
    heads = "".join(f"<th>+ {html.escape(t)}</th>" for t in tasks)
    rows = []
    for standing in last:
        seen = standing.matrix.mean().seen().tolist()
        cells = "".join(f"<td>{percent(v)}</td>" for v in seen)
        bar = f'<td class="bar"><i style="width:{100 * seen[-1]:.1f}%"></i></td>'
        kind = ' class="ours"' if standing.contestant.learner is not None else ""
        name = html.escape(standing.contestant.name)
        what = html.escape(standing.contestant.what)
        rows.append(f"<tr{kind}><th>{name}<small>{what}</small></th>{cells}{bar}</tr>")
    return f'<table class="results"><tr><th></th>{heads}<th></th></tr>{"".join(rows)}</table>'


def triangles(last: Sequence[Standing], tasks: Sequence[str]) -> str:
    """Each contestant's accuracy triangle: rows are boundaries, columns tasks."""
    colours = matplotlib.colormaps[SEQUENTIAL]
    figures = []
    for standing in last:
        lines = []
        for b, row in enumerate(standing.matrix.mean().values.tolist()):
            cells = []
            for value in row[: b + 1]:
                colour = matplotlib.colors.to_hex(colours(value))
                ink = "#000" if value > 0.55 else "#fff"
                cells.append(f'<td style="background:{colour};color:{ink}">{100 * value:.0f}</td>')
            lines.append(f"<tr><th>{html.escape(tasks[b])}</th>{''.join(cells)}</tr>")
        heads = "".join(f"<th>{html.escape(t)}</th>" for t in tasks)
        caption = html.escape(standing.contestant.name)
        figures.append(
            f"<figure><figcaption>{caption}</figcaption>"
            f'<table class="triangle">{"".join(lines)}<tr><th></th>{heads}</tr></table></figure>'
        )
    return f'<div class="row">{"".join(figures)}</div>'


def curves(last: Sequence[Standing], tasks: Sequence[str]) -> Figure:
    """Average accuracy on the tasks so far, one line each."""
    figure = Figure(figsize=(7.2, 3.2), layout="constrained")
    ax = figure.subplots()
    for i, standing in enumerate(last):
        ours = standing.contestant.learner is not None
        seen = [100 * v for v in standing.matrix.mean().seen().tolist()]
        ax.plot(
            tasks, seen, marker="o", markersize=4, color=COLOURS[i % len(COLOURS)],
            linewidth=2.4 if ours else 1.2, linestyle="-" if ours else "--", label=standing.contestant.name,
        )  # fmt: skip
    ax.set_ylim(0, 102)
    ax.set_ylabel("accuracy on digits met so far (%)", fontsize="small")
    ax.set_xlabel("task learned last")
    ax.legend(frameon=False, fontsize="small", loc="lower left")
    quiet(ax)
    return figure


def weights(film: WeightFilm) -> str:
    """The film of the fast weights, and their learning rates."""
    figure = Figure(figsize=(7.2, 2.8), layout="constrained")
    plot_learning_rates(film, ax=figure.subplots())
    gif = base64.b64encode(weight_film(film)).decode()
    return (
        f'<div class="row"><figure><img alt="fast weights changing" src="data:image/gif;base64,{gif}">'
        "<figcaption>What the stream has changed in the blocks y, q, k, β of three heads, demo by demo."
        f"</figcaption></figure><figure>{inline_svg(figure)}<figcaption>The learning rates the first layer "
        "sets for its own four blocks: median and middle half of its heads.</figcaption></figure></div>"
    )


def wrong_digits(found: Sequence[Mistake], asked: int) -> str:
    """The misread images, the surest mistakes first."""
    shown = "".join(
        f'<figure class="digit"><img alt="a {m.truth}" src="{_png(m)}"><figcaption>{m.truth} read as '
        f"<b>{m.answer}</b><small>{100 * m.sure:.0f} % sure</small></figcaption></figure>"
        for m in found[:MOST_MISTAKES]
    )
    more = len(found) - MOST_MISTAKES
    rest = f"<p>and {more} more.</p>" if more > 0 else ""
    return f'<p>{len(found)} of {asked} test images.</p><div class="row">{shown}</div>{rest}'


def _png(mistake: Mistake) -> str:
    out = BytesIO()
    # Dark ink on light paper reads better on a page than the other way round.
    Image.fromarray(255 - mistake.image).resize((56, 56), Image.Resampling.BICUBIC).save(out, format="PNG")
    return "data:image/png;base64," + base64.b64encode(out.getvalue()).decode()


def inline_svg(figure: Figure) -> str:
    """A figure as an element of a page."""
    out = StringIO()
    figure.savefig(out, format="svg", transparent=True)
    text = out.getvalue()
    return text[text.index("<svg") :]
