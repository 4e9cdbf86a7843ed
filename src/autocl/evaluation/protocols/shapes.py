"""Not in the paper: class-incremental Omniglot streams over a grid of tasks, ways and shots.

The paper names it as a limit that its learners break when a stream has another shape than in meta-training.
This table shows how far each learner goes: from one task to eight, from one demo per class to fifteen.
"""

from autocl.data.fixed import FixedStream
from autocl.data.split import split_omniglot
from autocl.evaluation.protocol import Options, Protocol, Sets, Setting, average
from autocl.evaluation.subject import SetRef

GRID = [(tasks, ways) for ways in (2, 5) for tasks in (1, 2, 4, 8) if tasks * ways <= 20]
SHOTS = (1, 5, 15)
STREAMS = 20
"""Of each run."""
APART = 1000
"""Numbers between the first streams of neighbouring runs."""


def _setting(tasks: int, ways: int, shots: int) -> Setting:
    cell = f"{tasks}-task {ways}-way, {shots} shot{'s' if shots > 1 else ''}"

    def streams(sets: Sets, run: int, options: Options) -> list[FixedStream]:
        return [
            split_omniglot(
                sets["omniglot/test"],
                tasks=tasks,
                ways=ways,
                scenario="class",
                shots=shots,
                run=run * APART + i,
            )
            for i in range(options.n_streams(STREAMS))
        ]

    return Setting(
        name=cell,
        sets=(SetRef(name="omniglot", split="test"),),
        streams=streams,
        cells={cell: average},
    )


SHAPES = Protocol(
    name="shapes",
    title="Streams of other shapes: Omniglot, class-incremental (not in the paper)",
    runs=10,
    settings=tuple(_setting(tasks, ways, shots) for tasks, ways in GRID for shots in SHOTS),
    row=lambda subject: "",
)
