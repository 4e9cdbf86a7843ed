"""`autocl zoo`: what ships."""

from typing import Annotated

from rich.console import Console
from tyro.conf import Positional, arg

from autocl import zoo as shipped
from autocl.cli.terminal import say, tabulate

Name = Annotated[Positional[str | None], arg(metavar="[NAME]", help_behavior_hint="")]


def zoo(name: Name = None, /) -> None:
    """List the learners that ship with the package, or print the model card of one.

    Args:
        name: of a learner. Its card says how it was made, what it measured and what it cannot do.

    Examples:
        autocl zoo
        autocl zoo everyday
    """
    if name is not None:
        print(shipped.card(name))
        return
    rows = []
    for each in shipped.names():
        learner = shipped.load(each)
        c = learner.config
        size = sum(p.numel() for p in learner.parameters())
        state = f"{learner.initial_state().nbytes / 1000:.0f} KB"
        takes = "vectors" if learner.any_length else f"{c.height}×{c.width}×{c.channels}"
        rows.append((each, "any" if learner.grows else str(c.n_classes), takes, f"{size:,}", state))
    headings = ("name", "outputs", "input", "parameters", "state")
    console = Console()
    if rows:
        console.print(tabulate(headings, rows, right=("outputs", "parameters", "state")))
    say("autocl zoo NAME prints a learner's card" if rows else "no learner ships with this checkout")
