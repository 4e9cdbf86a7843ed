"""The picture at the top of the README, from the demo's contest: `python -m tools.picture split-class`."""

import sys
from pathlib import Path

from autocl import zoo
from autocl.tour.contest import contestants, digit_streams, play, scenario_for
from autocl.tour.page import curves

SHOTS, RUNS = 15, 5
"""As in `autocl tour`."""

if __name__ == "__main__":
    learners = {name: zoo.load(name) for name in sys.argv[1:]}
    streams = digit_streams(scenario_for(learners), shots=SHOTS, runs=RUNS)
    last = {s.contestant.name: s for s in play(contestants(learners), streams)}
    figure = curves(list(last.values()), [f"{2 * t}/{2 * t + 1}" for t in range(5)])
    path = Path(__file__).parent.parent / "docs" / "tour.svg"
    figure.savefig(path, facecolor="white", metadata={"Date": None})
