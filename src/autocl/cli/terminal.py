"""Input and output of commands: arguments by tyro; plain lines and tables with names as they are typed."""

import inspect
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, TypeVar

import tyro
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


T = TypeVar("T")
Left = Annotated[T | None, tyro.conf.arg(help_behavior_hint="")]
"""An option that is left out unless it is needed; its help says what happens then, not "default: None"."""

CONFIG = (
    tyro.conf.OmitSubcommandPrefixes,
    tyro.conf.OmitArgPrefixes,
    tyro.conf.FlagCreatePairsOff,  # --quick, but no --no-quick beside it
    tyro.conf.DisallowNone,  # an option is left out, not set to None
)


def run(function: Callable[..., Any], args: Sequence[str], prog: str) -> None:
    """Call a function with what the command line says, or print its help, with examples at the end.

    Args:
        function: typed; the sections of its docstring are the help.
        args: behind the command. None at all is a call for help if the function needs some.
        prog: what the command is called.
    """
    needy = any(p.default is p.empty for p in inspect.signature(function).parameters.values())
    args = list(args) or (["--help"] if needy else [])
    try:
        tyro.cli(function, args=args, prog=prog, config=CONFIG)
    except SystemExit as end:
        if end.code or not {"-h", "--help"} & set(args):
            raise
        _print_examples(function)


def _print_examples(function: Callable[..., Any]) -> None:
    """Print the section "Examples" of a docstring, which tyro leaves out."""
    _, _, examples = (inspect.getdoc(function) or "").partition("\nExamples:\n")
    if examples:
        print("\nexamples:\n" + textwrap.indent(textwrap.dedent(examples).rstrip(), "  "))
