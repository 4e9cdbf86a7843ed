"""What commands print: plain lines and tables in which names stand as they are typed, [brackets] and all."""

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text


def say(text: str, *, style: str | None = None, console: Console | None = None) -> None:
    """Print a line as it is: no markup in names, no colours by guess, no breaks in paths."""
    (console or Console()).print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def tabulate(headings: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[str] = ()) -> Table:
    """A table without lines.

    Args:
        headings: of the columns.
        rows: cells, as text.
        right: headings of the columns that are aligned on the right: numbers.
    """
    table = Table(box=None, pad_edge=False)
    for heading in headings:
        table.add_column(Text(heading), justify="right" if heading in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table
