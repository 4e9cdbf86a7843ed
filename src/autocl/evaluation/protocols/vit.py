"""Table 4: mini Split-CIFAR-100 and mini 5-datasets over the features of a frozen network.

The learner takes ready-made vectors (identity encoder); `--vectors FOLDER` holds them, one file for each
image set, made by whatever network one likes.
"""

from collections.abc import Sequence

from autocl.data.fixed import FixedStream
from autocl.data.imageset import ImageSet
from autocl.data.split import five_datasets, mini_split_cifar100
from autocl.evaluation.protocol import Cell, Options, Protocol, Sets, Setting, average, entry
from autocl.evaluation.rows import vit_row
from autocl.evaluation.subject import SetRef

SHOTS = 15
FIVE = {
    "cifar10": "CIFAR-10",
    "mnist": "MNIST",
    "fashion_mnist": "Fashion",
    "svhn": "SVHN",
    "notmnist": "notMNIST",
}
"""The five sets in the paper's order, with its names for them."""


def _refs(*names: str) -> tuple[SetRef, ...]:
    return tuple(
        ref
        for name in names
        for ref in (SetRef(name=name, split="train"), SetRef(name=name, split="test", optional=True))
    )


def _pair(sets: Sets, name: str) -> tuple[ImageSet, ImageSet | None]:
    return sets[f"{name}/train"], sets.get(f"{name}/test")


def _cifar100(sets: Sets, run: int, options: Options) -> list[FixedStream]:
    train, test = _pair(sets, "cifar100")
    return [mini_split_cifar100(train, test, shots=SHOTS, run=run, demos=options.demos)]


def _five(sets: Sets, run: int, options: Options) -> list[FixedStream]:
    return [five_datasets([_pair(sets, n) for n in FIVE], shots=SHOTS, run=run, demos=options.demos)]


def _alone(whole: Setting, position: int, cell: str) -> Setting:
    """One task of a stream, learned from the initial state with its own labels."""

    def streams(sets: Sets, run: int, options: Options) -> Sequence[FixedStream]:
        (stream,) = whole.streams(sets, run, options)
        alone = FixedStream(
            name=cell, tasks=stream.tasks[position : position + 1], n_outputs=stream.n_outputs,
            scenario=stream.scenario,
        )  # fmt: skip
        return [alone]

    cells: dict[str, Cell] = {cell: entry(0, 0)}
    return Setting(name=cell, sets=whole.sets, streams=streams, cells=cells, vectors=True)


CIFAR100 = Setting(
    name="split-cifar100",
    sets=_refs("cifar100"),
    streams=_cifar100,
    cells={"split-cifar100": average},
    vectors=True,
)
FIVE_DATASETS = Setting(
    name="5-datasets", sets=_refs(*FIVE), streams=_five, cells={"5-datasets": average}, vectors=True
)

VIT = Protocol(
    name="vit",
    title="Frozen features: mini Split-CIFAR-100 and mini 5-datasets (Table 4)",
    runs=10,
    settings=(
        *(_alone(CIFAR100, t, f"split-cifar100: task {t + 1}") for t in range(5)),
        CIFAR100,
        *(_alone(FIVE_DATASETS, t, f"5-datasets: {title}") for t, title in enumerate(FIVE.values())),
        FIVE_DATASETS,
    ),
    row=vit_row,
)
