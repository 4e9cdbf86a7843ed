"""The demo's table, growing while the stream goes on: live on a terminal, a line for each task elsewhere."""

from collections.abc import Iterable, Sequence
from contextlib import nullcontext

from rich.console import Console
from rich.live import Live
from rich.table import Table

from autocl.tour.contest import Contestant, Standing


def watch(
    standings: Iterable[Standing], entered: Sequence[Contestant], tasks: Sequence[str], console: Console
) -> dict[str, Standing]:
    """Show standings as they come.

    Returns:
        The last standing of each contestant.
    """
    shown: dict[str, list[Standing]] = {c.name: [] for c in entered}
    live = console.is_terminal
    with Live(console=console, refresh_per_second=8) if live else nullcontext() as screen:
        for standing in standings:
            shown[standing.contestant.name].append(standing)
            if screen is not None:
                screen.update(grown(shown, entered, tasks))
            elif standing.contestant is entered[-1]:
                done = {name: so_far[-1] for name, so_far in shown.items()}
                scores = ", ".join(f"{name} {percent(s.now)}" for name, s in done.items())
                console.print(f"after {tasks[standing.boundary]}: {scores}", soft_wrap=True, highlight=False)
    if not live:
        console.print(grown(shown, entered, tasks))
    return {name: so_far[-1] for name, so_far in shown.items()}


def grown(shown: dict[str, list[Standing]], entered: Sequence[Contestant], tasks: Sequence[str]) -> Table:
    """The table with what is known so far."""
    table = Table(title="average accuracy (%) on all digits met so far", title_justify="left", box=None)
    table.add_column("")
    for task in tasks:
        table.add_column(f"+ {task}", justify="right")
    table.add_column("when new", justify="right")
    for contestant in entered:
        so_far = shown[contestant.name]
        cells = [percent(s.now) for s in so_far] + [""] * (len(tasks) - len(so_far))
        learned = percent(so_far[-1].learned) if len(so_far) == len(tasks) else ""
        style = "bold" if contestant.learner is not None else None
        table.add_row(contestant.name, *cells, learned, style=style)
    return table


def percent(share: float) -> str:
    """0.9512 -> 95.1."""
    return f"{100 * share:.1f}"
