"""What the README shows of the tour, measured now: `python -m tools.readme`.

Runs the tour's contests and its pair, draws docs/tour.svg, runs the README's first Python block, and puts
what it printed and a table of the contests between their marks.
"""

import contextlib
import io
import re
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from tools.results_table import filled

from autocl.figures.page import percent
from autocl.figures.plots import COLOURS, quiet
from autocl.learner.find import find_learner
from autocl.tour.contest import Contest, Standing, best_rival, digits, drawings, play
from autocl.tour.page import draw_curves
from autocl.tour.pair import Half, measure_pair
from autocl.tour.used import use

ROOT = Path(__file__).parent.parent
LEARNER, SHOTS, RUNS = "everyday", 15, 5
"""As in `autocl tour`."""


def contest_table(played: list[tuple[Contest, list[Standing]]]) -> str:
    """Ours at the end of each contest, and the best rivals."""
    heads = ("learned one task after the other", f"`{LEARNER}`", "best rival of constant size")
    head = f"| {' | '.join(heads)} | best that keeps every example |"
    rows = []
    for contest, last in played:
        rivals = (best_rival(last, keeping=False), best_rival(last, keeping=True))
        cells = " | ".join(f"{percent(s.now)} ({s.contestant.name})" for s in rivals)
        shots = contest.streams[0].tasks[0].demos.shape[1] // _ways(contest)
        title = f"{contest.title}, {shots} examples of each"
        rows.append(f"| {title} | {percent(last[0].now)} | {cells} |")
    return "\n".join([head, "|---|---:|---:|---:|", *rows]) + "\n"


def used_line() -> str:
    """Time and size of the classifier in use."""
    used = use(LEARNER)
    milliseconds = float(f"{used.milliseconds:.2g}")  # often less than one
    return (
        "\nAccuracy in percent on everything met so far (`autocl tour`). One example takes "
        f"{milliseconds:g} ms of one core, the file of what was learned {used.kilobytes:,.0f} KB.\n"
    )


def printed(readme: str) -> str:
    """What the first Python block prints, as a block of text."""
    code = re.search(r"^```python\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)
    assert code is not None, "README.md has no Python block"
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(code[1], {})
    return f"```text\n{out.getvalue()}```\n"


def draw(played: list[tuple[Contest, list[Standing]]], pair: list[Half]) -> Figure:
    """The picture: the first contest, and the pair."""
    figure = Figure(figsize=(9.2, 3.3), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(5, 3))
    contest, last = played[0]
    draw_curves(left, last, contest.tasks)
    left.set_title(contest.title, fontsize="medium")
    draw_pair(right, pair)
    return figure


def draw_pair(ax: Axes, pair: list[Half]) -> None:
    """What became of the first task, by each half."""
    for half, colour in zip(pair, COLOURS, strict=False):
        ax.plot(
            ["just learned", "after task 2"], [100 * s for s in half.shares[:2]], marker="o", color=colour,
            linewidth=2.6, label=f"meta-trained:\n{half.trained}",
        )  # fmt: skip
    ax.set_ylim(0, 102)
    ax.set_xlim(-0.2, 1.2)
    ax.axhline(20, color="0.6", linestyle=":", linewidth=1)
    ax.annotate("chance", (-0.15, 22), fontsize="small", color="0.4")
    ax.set_title("Two learners, task 1 of 2", fontsize="medium")
    ax.legend(frameon=False, fontsize="small", loc="lower left", bbox_to_anchor=(0, 0.24))
    quiet(ax)


def _ways(contest: Contest) -> int:
    return len(set(contest.streams[0].tasks[0].demo_labels[0].tolist()))


if __name__ == "__main__":
    learners = {LEARNER: find_learner(LEARNER)}
    planned = [plan(learners, shots=SHOTS, runs=RUNS) for plan in (digits, drawings)]
    played = [(c, list({s.contestant.name: s for s in play(c)}.values())) for c in planned if c is not None]
    picture = draw(played, measure_pair())
    picture.savefig(ROOT / "docs" / "tour.svg", facecolor="white", metadata={"Date": None})
    path = ROOT / "README.md"
    text = path.read_text(encoding="utf-8")
    for mark, made in {"printed": printed(text), "tour": contest_table(played) + used_line()}.items():
        text = filled(text, made, f"<!-- {mark}: begin -->", f"<!-- {mark}: end -->")
    path.write_text(text, encoding="utf-8")
