"""`autocl tour`: on the terminal, and as a page."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from rich.console import Console
from tyro.conf import arg

from autocl.baselines.incontext import InContext
from autocl.cli.terminal import say
from autocl.evaluation.trace import record_film
from autocl.learner import Learner
from autocl.learner.find import display_name, find_learner, learner_file
from autocl.tour import contest, photographs
from autocl.tour import pair as pairs
from autocl.tour.contest import mistakes, play, watch
from autocl.tour.page import Told, write_tour
from autocl.tour.used import use

DEFAULT = "everyday"


def tour(
    *,
    learner: Annotated[tuple[str, ...], arg(metavar="NAME …", help_behavior_hint="")] = (),
    shots: int = 15,
    runs: int = 5,
    out: Path = Path("tour"),
) -> None:
    """See classes being learned one after the other, beside simple rivals; write OUT/index.html.

    Digits and photographs of scikit-learn, and drawings made by a program: nothing is downloaded.

    Args:
        learner: names in the zoo, or paths; default: everyday.
        shots: images of each class to learn.
        runs: independent choices of these images, averaged.
        out: folder of the page.

    Examples:
        autocl tour
        autocl tour --shots 5
        autocl tour --learner split-class gemcl
        autocl tour --learner runs/mine --out /tmp/mine
    """
    console, started = Console(), time.perf_counter()
    names = learner or (DEFAULT,)
    learners = _opened(names)
    planned = [plan(learners, shots=shots, runs=runs) for plan in (contest.digits, contest.drawings)]
    contests = [(c, watch(play(c), c, console)) for c in planned if c is not None]
    first = contests[0][0].entered[0]
    assert isinstance(first.method, InContext)  # what _opened gives is first
    # Questions come after the last demo, so the method must still stand at the end of the digits.
    wrong, asked = mistakes(first.method, contests[0][0].streams[0])
    used = use(names[0]) if contest.outputs(learners) >= contest.DIGITS else None
    if used is not None:
        say(
            f"\none at a time: {used.milliseconds:.1f} ms a demo; after {used.demos} digits "
            f"{100 * used.accuracy:.1f} % of {used.asked:,} others; {used.kilobytes:,.0f} KB on disk",
            console=console,
        )
    cut = photographs.measure() if photographs.available() else None
    if cut is None:
        say("\nphotographs: pip install 'autocl[photos]' shows them here, too", style="dim", console=console)
    else:
        photographs.show(cut, console)
    found = pairs.measure_pair()
    pairs.show(found, console)
    shown = find_learner(found[0].name)
    film = record_film(shown, pairs.film_stream(shown))
    told = Told(
        contests=contests, wrong=wrong, asked=asked, used=used, cut=cut, pair=found, film=film,
        seconds=time.perf_counter() - started,
    )  # fmt: skip
    say(f"\nthe page is {write_tour(out / 'index.html', told).resolve()}", console=console)


def _opened(names: Sequence[str]) -> dict[str, Learner]:
    """Learners by the names they have in tables."""
    found = {}
    for name in names:
        with learner_file(name) as file:
            found[display_name(file)] = Learner.from_pretrained(file)
    return found
