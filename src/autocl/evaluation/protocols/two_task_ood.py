"""Table 2: MNIST and CIFAR-10, digits and objects 0-4, in both orders."""

from autocl.evaluation.protocol import Protocol, entry
from autocl.evaluation.protocols.chains import chain_setting
from autocl.evaluation.rows import pair_row

TWO_TASK_OOD = Protocol(
    name="two-task-ood",
    title="Two tasks of unseen domains, A = MNIST, B = CIFAR-10 (Table 2)",
    runs=5,
    settings=(
        chain_setting("A→B", {"A: A": entry(0, 0), "A→B: B": entry(1, 1), "A→B: A": entry(1, 0)}),
        chain_setting("B→A", {"B: B": entry(0, 0), "B→A: A": entry(1, 1), "B→A: B": entry(1, 0)}),
    ),
    row=pair_row,
)
