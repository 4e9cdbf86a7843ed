"""Appendix: 5 or 15 demos per class in meta-testing, for learners meta-trained with 5 or 15."""

from autocl.data.stream_config import Scenario
from autocl.evaluation.protocol import Protocol
from autocl.evaluation.protocols.split_mnist import split_setting
from autocl.evaluation.rows import shots_row

SCENARIOS: tuple[tuple[Scenario, int], ...] = (("domain", 5), ("class", 2), ("class", 5))

SHOTS_PROTOCOL = Protocol(
    name="shots",
    title="Number of demos per class, Split-MNIST (appendix)",
    runs=10,
    settings=tuple(
        split_setting(f"{scenario} {tasks}-task, {shots} shots", scenario=scenario, tasks=tasks, shots=shots)
        for scenario, tasks in SCENARIOS
        for shots in (5, 15)
    ),
    row=shots_row,
)
