"""Appendix: four chained domains, MNIST-04 → CIFAR10-04 → MNIST-59 → FMNIST-04.

The shorter streams of the table are beginnings of the longest, whose demos are the same: one passage gives
them all. Unlike the authors' code, MNIST-59's queries are normalised as MNIST.
"""

from autocl.evaluation.protocol import Protocol, entry
from autocl.evaluation.protocols.chains import chain_setting, prefix_cells
from autocl.evaluation.rows import diverse_row

ORDER = "A→B→C→D"

DIVERSE = Protocol(
    name="diverse",
    title="Diverse domains, A = MNIST-04, B = CIFAR10-04, C = MNIST-59, D = FMNIST-04 (appendix)",
    runs=5,
    settings=(
        chain_setting(ORDER, prefix_cells(ORDER)),
        *(chain_setting(letter, {f"{letter}: {letter}": entry(0, 0)}) for letter in "BCD"),
    ),
    row=diverse_row,
)
