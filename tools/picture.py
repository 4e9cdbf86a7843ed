"""The picture at the top of the README, from the tour: `python -m tools.picture everyday`."""

import sys
from pathlib import Path

from autocl.learner.find import find_learner
from autocl.tour.contest import play
from autocl.tour.page import curves
from autocl.tour.streams import digits

SHOTS, RUNS = 15, 5
"""As in `autocl tour`."""

if __name__ == "__main__":
    contest = digits({name: find_learner(name) for name in sys.argv[1:]}, shots=SHOTS, runs=RUNS)
    last = {s.contestant.name: s for s in play(contest)}
    figure = curves(list(last.values()), contest.tasks)
    path = Path(__file__).parent.parent / "docs" / "tour.svg"
    figure.savefig(path, facecolor="white", metadata={"Date": None})
