"""Pages: one HTML file with everything in it, readable in the dark and on a phone.

A page is a Jinja template that extends `pages/base.html`, which holds the style that all pages share.
Everything put into a template is escaped; what is HTML already (an inline SVG) is `Markup`.
"""

import base64
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import matplotlib as mpl
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from autocl import __version__
from autocl.figures.plots import CROWDED, SEQUENTIAL
from autocl.files import write_text
from autocl.matrix import TransferMatrix

PAGES = Path(__file__).parent / "pages"
INK = "#123456"
"""Drawn in this colour, text and axes take that of the page, light or dark."""


def write_page(path: Path, template: Path, **values: Any) -> Path:
    """Fill a template and write it.

    Args:
        path: of the page.
        template: a file that extends base.html.
        **values: what it shows.

    Returns:
        The page, which needs no other file and no network.
    """
    environment = Environment(
        loader=FileSystemLoader([template.parent, PAGES]), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters["percent"] = percent
    write_text(path, environment.get_template(template.name).render(version=__version__, **values))
    return path


def percent(share: float | None) -> str:
    """0.9512 -> 95.1; nothing for what is not known."""
    return "" if share is None else f"{100 * share:.1f}"


def inline(picture: bytes, kind: str = "png") -> str:
    """A picture as an address that a page can hold in itself."""
    return f"data:image/{kind};base64,{base64.b64encode(picture).decode()}"


def inline_svg(figure: Figure) -> Markup:
    """A figure as an element of a page; what was drawn in `INK` has the colour of the page's text."""
    out = StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "autocl"}):
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    text = out.getvalue()
    # The drawing is ours, so nothing in it needs escaping.
    return Markup(text[text.index("<svg") :].replace(INK, "currentColor"))


def heat(matrix: TransferMatrix, tasks: Sequence[str]) -> dict[str, Any]:
    """Values that the macro `heat` of base.html draws: the mean over runs, as rows of cells.

    Example:
        >>> import torch
        >>> drawn = heat(TransferMatrix(torch.tensor([[0.5, torch.nan], [0.75, 1.0]])), ["a", "b"])
        >>> [(name, [cell and cell["value"] for cell in cells]) for name, cells in drawn["rows"]]
        [('a', [0.5, None]), ('b', [0.75, 1.0])]
    """
    crowded = matrix.tasks > CROWDED
    names = [str(i + 1) for i in range(matrix.tasks)] if crowded else list(tasks)
    values = matrix.mean().to_lists()
    rows = [(name, [_cell(v) for v in row]) for name, row in zip(names, values, strict=True)]
    return {"names": names, "rows": rows, "crowded": crowded}


def _cell(value: float | None) -> dict[str, Any] | None:
    if value is None:
        return None
    colour = to_hex(mpl.colormaps[SEQUENTIAL](value))
    return {"value": value, "colour": colour, "ink": "#000" if value > 0.55 else "#fff"}
