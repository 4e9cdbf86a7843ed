"""Streams of five-way halves of image sets, given as letters: the common part of two tables."""

from autocl.data.fixed import FixedStream, chain_stream
from autocl.data.split import half
from autocl.evaluation.protocol import Cell, Options, Sets, Setting, average_at, entry
from autocl.evaluation.subject import SetRef

SHOTS = 15
LETTERS = {"A": ("mnist", "04"), "B": ("cifar10", "04"), "C": ("mnist", "59"), "D": ("fashion_mnist", "04")}
"""The paper's four tasks: image set and range of classes."""


def chain_setting(order: str, cells: dict[str, Cell]) -> Setting:
    """A domain-incremental stream such as "A→B→C"."""
    letters = order.split("→")
    names = dict.fromkeys(LETTERS[letter][0] for letter in letters)

    def streams(sets: Sets, run: int, options: Options) -> list[FixedStream]:
        stages = []
        for letter in letters:
            name, span = LETTERS[letter]
            stages.append(half(sets[f"{name}/train"], sets[f"{name}/test"], span))
        return [chain_stream(stages, shots=SHOTS, run=run, demos=options.demos, name=order)]

    refs = tuple(SetRef(name=name, split=split) for name in names for split in ("train", "test"))
    return Setting(name=order, sets=refs, streams=streams, cells=cells)


def prefix_cells(order: str) -> dict[str, Cell]:
    """Every task at every boundary of a chain, and the average from the second on."""
    letters = order.split("→")
    cells: dict[str, Cell] = {}
    for boundary in range(len(letters)):
        prefix = "→".join(letters[: boundary + 1])
        for task in range(boundary + 1):
            cells[f"{prefix}: {letters[task]}"] = entry(boundary, task)
        if boundary:
            cells[f"{prefix}: average"] = average_at(boundary)
    return cells
