"""`autocl zoo`: what ships."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from autocl import zoo
from autocl.errors import InputError

HELP = """usage: autocl zoo                      list the learners that ship with the package
       autocl zoo NAME                 print a learner's model card

examples:
  autocl zoo
  autocl zoo everyday
"""


def main(args: Sequence[str]) -> None:
    """Run `autocl zoo` with these arguments."""
    if any(a in ("-h", "--help") for a in args):
        print(HELP)
    elif len(args) > 1:
        raise InputError(f"autocl zoo takes one name, got {' '.join(args)}; autocl zoo --help")
    elif args:
        print(zoo.card(args[0]))
    else:
        list_learners()


def list_learners() -> None:
    """One line for each learner."""
    table = Table(box=None, pad_edge=False)
    for column in ("name", "outputs", "input", "parameters", "state"):
        table.add_column(column, justify="left" if column in ("name", "input") else "right")
    for name in zoo.names():
        learner = zoo.load(name)
        c = learner.config
        table.add_row(
            name,
            str(c.n_classes),
            f"{c.height}×{c.width}×{c.channels}",
            f"{sum(p.numel() for p in learner.parameters()):,}",
            f"{learner.initial_state().nbytes / 1000:.0f} KB",
        )
    console = Console()
    console.print(table if zoo.names() else "no learner ships with this checkout")
    console.print("autocl zoo NAME prints a learner's card", highlight=False)
