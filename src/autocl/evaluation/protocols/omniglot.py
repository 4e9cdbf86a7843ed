"""Split-Omniglot and longer streams (appendix), and, not in the paper, streams of other shapes.

The paper's code has none of it. A run is the mean over many streams of characters drawn anew: one stream has
only 10 queries a task, and the paper's deviation of 0.4 points tells of some thousands in each run.
"""

from autocl.data.eval_streams import split_omniglot
from autocl.data.stream import Stream, side_by_side
from autocl.data.stream_config import Scenario
from autocl.evaluation.protocol import Options, Protocol, SetRef, Sets, Setting, average
from autocl.evaluation.protocols.split import FINETUNED
from autocl.evaluation.published import finetuned, numbers, of_method

SHOTS = 15
STREAMS = 50
"""Streams of each run: 2,500 queries after five tasks."""
APART = 1000
"""Numbers between the first streams of neighbouring runs."""
ROTATED = ", rotated"
"""Streams over the test characters and their copies turned by 90, 180 and 270 degrees, which are classes of
their own in the authors' loader; two classes of a stream may be turned copies of each other. Without it,
upright characters only."""


def omniglot_setting(
    cell: str,
    *,
    scenario: Scenario,
    tasks: int,
    ways: int = 2,
    shots: int = SHOTS,
    count: int = STREAMS,
    rotated: bool = False,
) -> Setting:
    """Streams over test characters, `count` of them in each run; the cell is their average accuracy."""

    def streams(sets: Sets, run: int, options: Options) -> Stream:
        return side_by_side(
            [
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
        )

    return Setting(
        name=cell,
        sets=(SetRef(name="omniglot", split="test", options=(("rotations", True),) if rotated else ()),),
        n_outputs=ways * (tasks if scenario == "class" else 1),
        streams=streams,
        cells={cell: average},
    )


LENGTHS: tuple[tuple[Scenario, int], ...] = (("domain", 5), ("domain", 10), ("domain", 20), ("class", 5))
_CELLS = "|".join(f"{s} {t}-task{turned}" for turned in ("", ROTATED) for s, t in LENGTHS)

SPLIT_OMNIGLOT = Protocol(
    name="split-omniglot",
    title="Split-Omniglot and longer streams (appendix)",
    position=9,
    runs=10,
    settings=tuple(
        omniglot_setting(f"{s} {t}-task{turned}", scenario=s, tasks=t, rotated=bool(turned))
        for turned in ("", ROTATED)
        for s, t in LENGTHS
    ),
    # The paper does not say which characters it means, so its numbers stand beside both.
    published=(
        of_method("GeMCL", "gemcl", numbers(_CELLS, "64.6±9.2 - - 97.4±2.7 64.6±9.2 - - 97.4±2.7")),
        *finetuned(
            FINETUNED,
            numbers(_CELLS, "92.3±0.4 82.0±0.4 67.6±1.1 96.8±0.8 92.3±0.4 82.0±0.4 67.6±1.1 96.8±0.8"),
        ),
    ),
)

GRID = [(tasks, ways) for ways in (2, 5) for tasks in (1, 2, 4, 8) if tasks * ways <= 20]
GRID_SHOTS = (1, 5, 15)


def _shape(tasks: int, ways: int, shots: int) -> Setting:
    cell = f"{tasks}-task {ways}-way, {shots} shot{'s' if shots > 1 else ''}"
    return omniglot_setting(cell, scenario="class", tasks=tasks, ways=ways, shots=shots, count=20)


# The paper names it as a limit that its learners break when a stream has another shape than in meta-training.
SHAPES = Protocol(
    name="shapes",
    title="Streams of other shapes: Omniglot, class-incremental (not in the paper)",
    runs=10,
    settings=tuple(_shape(tasks, ways, shots) for tasks, ways in GRID for shots in GRID_SHOTS),
)

PROTOCOLS = (SPLIT_OMNIGLOT, SHAPES)
