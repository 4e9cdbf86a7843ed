"""Table 3: Split-MNIST, domain-incremental with five tasks, class-incremental with two and five."""

from autocl.data.fixed import FixedStream
from autocl.data.split import split_stream
from autocl.data.stream_config import Scenario
from autocl.evaluation.protocol import Options, Protocol, Sets, Setting, average
from autocl.evaluation.rows import split_row
from autocl.evaluation.subject import SetRef

SHOTS = 15


def split_setting(
    cell: str,
    *,
    scenario: Scenario,
    tasks: int,
    shots: int = SHOTS,
    images: str = "mnist",
) -> Setting:
    """Split-X as one setting with one cell, the average after the last task."""

    def streams(sets: Sets, run: int, options: Options) -> list[FixedStream]:
        train, test = sets[f"{images}/train"], sets[f"{images}/test"]
        stream = split_stream(
            train, test, scenario=scenario, shots=shots, run=run, tasks=tasks, demos=options.demos
        )
        return [stream]

    return Setting(
        name=cell,
        sets=(SetRef(name=images, split="train"), SetRef(name=images, split="test")),
        streams=streams,
        cells={cell: average},
    )


SPLIT_MNIST = Protocol(
    name="split-mnist",
    title="Split-MNIST (Table 3)",
    runs=10,
    settings=(
        split_setting("domain 5-task", scenario="domain", tasks=5),
        split_setting("class 2-task", scenario="class", tasks=2),
        split_setting("class 5-task", scenario="class", tasks=5),
    ),
    row=split_row,
)
