"""Appendix: Split-Omniglot, domain-incremental with 5, 10 and 20 tasks, class-incremental with 5.

The paper's code has none of it. A run is the mean over many streams of characters drawn anew: one stream has
only 10 queries a task, and the paper's deviation of 0.4 points tells of some thousands in each run.
Characters are upright, so that no two classes of a stream are turned copies of each other.
"""

from autocl.data.fixed import FixedStream
from autocl.data.split import split_omniglot
from autocl.data.stream_config import Scenario
from autocl.evaluation.protocol import Options, Protocol, Sets, Setting, average
from autocl.evaluation.rows import omniglot_row
from autocl.evaluation.subject import SetRef

SHOTS = 15
STREAMS = 50
"""Of each run: 2,500 queries after five tasks."""
APART = 1000
"""Numbers between the first streams of neighbouring runs."""


def omniglot_setting(
    cell: str, *, scenario: Scenario, tasks: int, ways: int = 2, shots: int = SHOTS, count: int = STREAMS
) -> Setting:
    """Streams over test characters, `count` of them in each run; the cell is their average accuracy."""

    def streams(sets: Sets, run: int, options: Options) -> list[FixedStream]:
        return [
            split_omniglot(
                sets["omniglot/test"],
                tasks=tasks,
                ways=ways,
                scenario=scenario,
                shots=shots,
                run=run * APART + i,
            )
            for i in range(options.n_streams(count))
        ]

    return Setting(
        name=cell,
        sets=(SetRef(name="omniglot", split="test"),),
        streams=streams,
        cells={cell: average},
    )


def _setting(scenario: Scenario, tasks: int) -> Setting:
    return omniglot_setting(f"{scenario} {tasks}-task", scenario=scenario, tasks=tasks)


SPLIT_OMNIGLOT = Protocol(
    name="split-omniglot",
    title="Split-Omniglot and longer streams (appendix)",
    runs=10,
    settings=(
        _setting("domain", 5),
        _setting("domain", 10),
        _setting("domain", 20),
        _setting("class", 5),
    ),
    row=omniglot_row,
)
