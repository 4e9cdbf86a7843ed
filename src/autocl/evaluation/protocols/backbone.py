"""Table 4: learners behind a frozen pre-trained network; and the original Split-CIFAR-100 beside it."""

from dataclasses import replace
from functools import cache

from autocl.data.eval_streams import five_datasets, mini_split_cifar100, split_stream
from autocl.data.imageset import ImageSet
from autocl.data.stream import Stream
from autocl.evaluation.on_backbone import STATISTICS
from autocl.evaluation.protocol import Options, Protocol, Sets, Setting, average, entry, train_and_test
from autocl.evaluation.published import Row, numbers

SHOTS = 15
CIFAR, FIVE = "Split-CIFAR-100", "5-datasets"
PARTS = {"cifar10": "CIFAR-10", "mnist": "MNIST", "fashion_mnist": "Fashion", "svhn": "SVHN",
         "notmnist": "notMNIST"}  # fmt: skip
"""Image sets of 5-datasets, in the paper's order."""


def _cifar(sets: Sets, run: int, options: Options) -> Stream:
    train, test = sets["cifar100/train"], sets["cifar100/test"]
    return mini_split_cifar100(train, test, shots=SHOTS, run=run, demos=options.demos)


def _datasets(*names: str) -> Setting:
    """5-datasets, or some of it."""

    def streams(sets: Sets, run: int, options: Options) -> Stream:
        pairs = [(sets[f"{name}/train"], sets[f"{name}/test"]) for name in names]
        return five_datasets(pairs, shots=SHOTS, run=run, demos=options.demos)

    cell = FIVE if len(names) > 1 else PARTS[names[0]]
    sets = train_and_test(*names)
    return Setting(name=cell, sets=sets, n_outputs=2 * len(names), streams=streams, cells={cell: average})


def _cifar_task(number: int) -> Setting:
    """One task of the mini Split-CIFAR-100 by itself, counted from 1."""

    def streams(sets: Sets, run: int, options: Options) -> Stream:
        whole = _cifar(sets, run, options)
        task, offset = whole.tasks[number - 1], 2 * (number - 1)
        alone = replace(task, demo_labels=task.demo_labels - offset, query_labels=task.query_labels - offset)
        return replace(whole, tasks=(alone,), n_outputs=2)

    cell = f"CIFAR-100 task {number}"
    sets = train_and_test("cifar100")
    return Setting(name=cell, sets=sets, n_outputs=2, streams=streams, cells={cell: entry(0, 0)})


_ALONE = "|".join([*(f"CIFAR-100 task {t}" for t in range(1, 6)), *PARTS.values()])
_STREAMS = f"{CIFAR}|{FIVE}"
BACKBONE = Protocol(
    name="backbone",
    title="Behind a frozen network: mini Split-CIFAR-100 and mini 5-datasets (Table 4)",
    position=8,
    runs=10,
    statistics=STATISTICS,
    settings=(
        Setting(
            name=CIFAR, sets=train_and_test("cifar100"), n_outputs=10, streams=_cifar, cells={CIFAR: average}
        ),
        _datasets(*PARTS),
        *(_cifar_task(number) for number in range(1, 6)),
        *(_datasets(name) for name in PARTS),
    ),
    published=(
        Row(
            # Every entry stands beside it: the table asks what is made of a frozen network.
            name="ACL behind ViT-B/16",
            cells=numbers(
                f"{_STREAMS}|{_ALONE}",
                "68.3±2.0 61.5±2.1 95.9±0.9 85.6±3.6 93.4±1.4 97.0±0.7 67.6±7.0 "
                "91.3±1.2 98.9±0.3 93.5±2.0 66.1±9.4 76.3±6.7",
            ),
        ),
    ),
    references=(
        "On the original streams (all classes, all images), ViT-B/16: L2P 83.9 and 81.1, DualPrompt 86.5 and "
        "88.1 on Split-CIFAR-100 and 5-datasets; not comparable with the mini streams (the paper's stars)."
    ),
)

LAST = "10-task, last accuracy"
IMAGES, QUICK_SHOTS = 500, 20
"""Demos of each class: all that CIFAR-100 has, and those of a rough look."""


@cache
def _everything(images: ImageSet) -> ImageSet:
    """The set without a validation part: nothing is chosen on it, and all its images are shown."""
    return replace(images, order=None)


def _ten_by_ten(sets: Sets, run: int, options: Options) -> Stream:
    train, test = _everything(sets["cifar100/train"]), sets["cifar100/test"]
    shots = min(int(train.counts.min()), QUICK_SHOTS if options.quick else IMAGES)
    return split_stream(train, test, scenario="class", shots=shots, run=run, classes_per_task=10, tasks=10)


SPLIT_CIFAR100 = Protocol(
    name="split-cifar100",
    title="Split-CIFAR-100, ten tasks of ten classes, all 50,000 training images in one pass",
    position=10,
    runs=3,
    # k-NN would keep all 50,000. RanPAC's own number of random features needs a state of 404 MB; with the
    # others it has 1 MB, as `photos`, 3 MB, as `vectors`, and 17 MB.
    statistics={
        **{name: how for name, how in STATISTICS.items() if name != "knn"},
        "ranpac": {"units": 10_000},
        "ranpac@450": {},
        "ranpac@835": {},
        "ranpac@2000": {},
    },
    settings=(
        Setting(
            name=LAST,
            sets=train_and_test("cifar100"),
            n_outputs=100,
            streams=_ten_by_ten,
            cells={LAST: average},
        ),
    ),
    references=(
        "The same stream behind ViT-B/16 (ImageNet-21K): L2P 83.9 ± 0.3, DualPrompt 86.5 ± 0.3 (as the paper "
        "cites them), RanPAC 91.1 (as its authors print it). The network is another, so they stand apart."
    ),
)

PROTOCOLS = (BACKBONE, SPLIT_CIFAR100)
