"""The table of a contest, on a terminal growing while the stream goes on."""

from collections.abc import Iterable, Sequence
from contextlib import nullcontext

from rich.console import Console
from rich.live import Live
from rich.table import Table

from autocl.figures.page import percent
from autocl.tour.contest import Contest, Contestant, Standing


def watch(standings: Iterable[Standing], contest: Contest, console: Console) -> list[Standing]:
    """Show standings as they come.

    Returns:
        The last standing of each contestant, in their order.
    """
    shown: dict[str, list[Standing]] = {c.name: [] for c in contest.entered}
    console.print(f"\n[bold]{contest.title}[/bold]", highlight=False)
    console.print(contest.setting, soft_wrap=True, highlight=False)
    live = console.is_terminal
    with Live(console=console, refresh_per_second=8) if live else nullcontext() as screen:
        for standing in standings:
            shown[standing.contestant.name].append(standing)
            if screen is not None:
                screen.update(grown(shown, contest.entered, contest.tasks))
    if not live:
        console.print(grown(shown, contest.entered, contest.tasks))
    return [so_far[-1] for so_far in shown.values()]


def grown(shown: dict[str, list[Standing]], entered: Sequence[Contestant], tasks: Sequence[str]) -> Table:
    """The table with what is known so far."""
    table = Table(
        title="accuracy (%) on everything met so far", title_justify="left", box=None,
        caption="* keeps every demo. Class means, LDA, 1-NN: on our features", caption_justify="left",
    )  # fmt: skip
    table.add_column("")
    for task in tasks:
        table.add_column(f"+ {task}", justify="right")
    table.add_column("kept", justify="right")
    for contestant in entered:
        so_far = shown[contestant.name]
        cells = [percent(s.now) for s in so_far] + [""] * (len(tasks) - len(so_far))
        kept = f"{so_far[-1].cost.state_bytes / 1000:,.0f} KB" if so_far else ""
        style = "bold" if contestant.learner is not None else None
        mark = "*" if contestant.method.uses_replay else ""
        table.add_row(contestant.name + mark, *cells, kept, style=style)
    return table
