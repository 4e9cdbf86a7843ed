"""Progress of a long job: a bar on the terminal that says how long it will take, and nothing elsewhere."""

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TimeRemainingColumn


def progress_bar(*columns: ProgressColumn | str, transient: bool = False) -> Progress:
    """A bar on stderr; disabled where that is no terminal.

    Args:
        *columns: shown between the bar and the time that is left; default: how many of how many.
        transient: whether it vanishes at the end.

    Example:
        >>> with progress_bar() as bar:
        ...     task = bar.add_task("images", total=2)
        ...     bar.advance(task)
    """
    console = Console(stderr=True)
    shown = columns or (MofNCompleteColumn(),)
    return Progress(
        "{task.description}", BarColumn(), *shown, TimeRemainingColumn(), console=console,
        transient=transient, disable=not console.is_terminal,
    )  # fmt: skip
