"""Not in the paper: class-incremental Omniglot streams over a grid of tasks, ways and shots.

The paper names it as a limit that its learners break when a stream has another shape than in meta-training.
This table shows how far each learner goes: from one task to eight, from one demo per class to fifteen.
"""

from autocl.evaluation.protocol import Protocol, Setting
from autocl.evaluation.protocols.split_omniglot import omniglot_setting

GRID = [(tasks, ways) for ways in (2, 5) for tasks in (1, 2, 4, 8) if tasks * ways <= 20]
SHOTS = (1, 5, 15)
STREAMS = 20
"""Of each run."""


def _setting(tasks: int, ways: int, shots: int) -> Setting:
    cell = f"{tasks}-task {ways}-way, {shots} shot{'s' if shots > 1 else ''}"
    return omniglot_setting(cell, scenario="class", tasks=tasks, ways=ways, shots=shots, count=STREAMS)


SHAPES = Protocol(
    name="shapes",
    title="Streams of other shapes: Omniglot, class-incremental (not in the paper)",
    runs=10,
    settings=tuple(_setting(tasks, ways, shots) for tasks, ways in GRID for shots in SHOTS),
    row=lambda subject: "",
)
