"""`autocl tour`: the contest on the terminal, and as a page."""

from pathlib import Path
from typing import Annotated

from rich.console import Console
from tyro.conf import arg

from autocl.cli.terminal import say
from autocl.tour import live, page
from autocl.tour.digits import digits, open_learners


def tour(
    *,
    train: bool = False,
    learner: Annotated[tuple[str, ...], arg(metavar="NAME …", help_behavior_hint="")] = (),
    shots: int = 15,
    runs: int = 5,
    out: Path = Path("tour"),
) -> None:
    """Learn ten handwritten digits two at a time, beside simple rivals; write OUT/index.html.

    The digits are scikit-learn's: nothing is downloaded. The learners are those that ship.

    Args:
        train: first meta-train the `quick` learner here and now, with and without the backward terms.
        learner: names in the zoo, or files; default: split-class everyday.
        shots: images of each digit to learn.
        runs: independent choices of these images, averaged.
        out: folder of the page.

    Examples:
        autocl tour
        autocl tour --shots 5
        autocl tour --learner runs/mine/best.safetensors --out /tmp/mine
        autocl tour --train                              forgetting appears and disappears; some minutes
    """
    console = Console()
    sections = live.show(console, out) if train else []
    sections += digits(open_learners(learner, console), console, shots=shots, runs=runs)
    path = out / "index.html"
    page.write_page(path, "Ten digits, learned two at a time", sections)
    say(f"the page is {path.resolve()}", console=console)
