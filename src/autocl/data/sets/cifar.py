"""CIFAR-10, CIFAR-100, and FC100, which splits CIFAR-100 by super-class."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from autocl.data.description import DataFile, Form, SetInfo
from autocl.data.readers.block import Raw
from autocl.data.readers.cifar import read_cifar, read_cifar100_part
from autocl.data.readers.strips import read_named_strips, read_ordered_strips

_URL = "https://www.cs.toronto.edu/~kriz/"
_CITATION = "Krizhevsky: Learning multiple layers of features from tiny images. Technical report (2009)."
_LICENCE = "none stated; free for research by common use"

CIFAR10_CLASSES = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip

SUPER_CLASSES = {
    "aquatic_mammals": "beaver dolphin otter seal whale",
    "fish": "aquarium_fish flatfish ray shark trout",
    "flowers": "orchid poppy rose sunflower tulip",
    "food_containers": "bottle bowl can cup plate",
    "fruit_and_vegetables": "apple mushroom orange pear sweet_pepper",
    "household_electrical_devices": "clock keyboard lamp telephone television",
    "household_furniture": "bed chair couch table wardrobe",
    "insects": "bee beetle butterfly caterpillar cockroach",
    "large_carnivores": "bear leopard lion tiger wolf",
    "large_man-made_outdoor_things": "bridge castle house road skyscraper",
    "large_natural_outdoor_scenes": "cloud forest mountain plain sea",
    "large_omnivores_and_herbivores": "camel cattle chimpanzee elephant kangaroo",
    "medium_mammals": "fox porcupine possum raccoon skunk",
    "non-insect_invertebrates": "crab lobster snail spider worm",
    "people": "baby boy girl man woman",
    "reptiles": "crocodile dinosaur lizard snake turtle",
    "small_mammals": "hamster mouse rabbit shrew squirrel",
    "trees": "maple_tree oak_tree palm_tree pine_tree willow_tree",
    "vehicles_1": "bicycle bus motorcycle pickup_truck train",
    "vehicles_2": "lawn_mower rocket streetcar tank tractor",
}
"""CIFAR-100's coarse labels, and the fine ones of each."""

CIFAR100_CLASSES = tuple(sorted(" ".join(SUPER_CLASSES.values()).split()))
"""The fine labels are numbered alphabetically."""

FC100_SPLIT = {
    "val": (
        "large_carnivores", "large_omnivores_and_herbivores", "non-insect_invertebrates", "small_mammals",
    ),
    "test": ("aquatic_mammals", "insects", "medium_mammals", "people"),
}  # fmt: skip
"""The other twelve super-classes are for training."""


def _fc100_labels(split: str) -> tuple[int, ...]:
    held_out = {name for names in FC100_SPLIT.values() for name in names}
    chosen = FC100_SPLIT.get(split) or [name for name in SUPER_CLASSES if name not in held_out]
    fine = {name for coarse in chosen for name in SUPER_CLASSES[coarse].split()}
    return tuple(label for label, name in enumerate(CIFAR100_CLASSES) if name in fine)


def _archive(name: str, md5: str) -> tuple[DataFile]:
    return (DataFile(name=name, md5=md5, urls=(_URL + name,)),)


def _reader(
    members: Mapping[str, tuple[str, ...]], names: tuple[str, ...]
) -> Callable[[Mapping[str, Path], str, Mapping[str, Any]], Raw]:
    def read(files: Mapping[str, Path], split: str, options: Mapping[str, Any]) -> Raw:
        return read_cifar(next(iter(files.values())), members[split], names)

    return read


def _fc100_reader(*members: str) -> Callable[[Mapping[str, Path], str, Mapping[str, Any]], Raw]:
    def read(files: Mapping[str, Path], split: str, options: Mapping[str, Any]) -> Raw:
        # FC100 has 600 images a class: those of CIFAR-100's train and test sets together.
        archive = next(iter(files.values()))
        return read_cifar(archive, members, CIFAR100_CLASSES, keep=_fc100_labels(split))

    return read


def _read_strips(files: Mapping[str, Path], split: str, options: Mapping[str, Any]) -> Raw:
    return read_ordered_strips(next(iter(files.values())), split, CIFAR10_CLASSES)


def _read_cifar100_strips(files: Mapping[str, Path], split: str, options: Mapping[str, Any]) -> Raw:
    return read_named_strips(next(iter(files.values())), (split,), CIFAR100_CLASSES)


def _read_fc100_strips(files: Mapping[str, Path], split: str, options: Mapping[str, Any]) -> Raw:
    classes = tuple(CIFAR100_CLASSES[label] for label in _fc100_labels(split))
    return read_named_strips(next(iter(files.values())), ("train", "test"), classes)


def _read_part(files: Mapping[str, Path], split: str, options: Mapping[str, Any]) -> Raw:
    return read_cifar100_part(next(iter(files.values())), split, CIFAR100_CLASSES)


_BATCHES = tuple(f"data_batch_{number}" for number in range(1, 6))
_CIFAR100_PYTHON = _archive("cifar-100-python.tar.gz", "eb9058c3a382ffc7106e4002c42a8d85")
_CIFAR100_BINARY = _archive("cifar-100-binary.tar.gz", "03b5dce01913d631647c71ecec9e9cb8")
_CIFAR100_STRIPS = (
    DataFile(
        name="cifar100_jpeg.zip",
        sha256="0b5e89d8c5006df9e126e64ed692cbcfe4f3a4a110c41f1aeb233815618482c6",
    ),
)
_JPEG_NOTE = "the images went through JPEG (quality 96), so pixels differ a little from CIFAR-100's own"

CIFAR10 = SetInfo(
    name="cifar10",
    title="CIFAR-10",
    splits=("train", "test"),
    forms=(
        Form(
            title="official python archive",
            files=_archive("cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a"),
            read=_reader({"train": _BATCHES, "test": ("test_batch",)}, CIFAR10_CLASSES),
        ),
        Form(
            title="official binary archive",
            files=_archive("cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530"),
            read=_reader(
                {"train": tuple(f"{name}.bin" for name in _BATCHES), "test": ("test_batch.bin",)},
                CIFAR10_CLASSES,
            ),
        ),
        Form(
            title="packed strips",
            files=(
                DataFile(
                    name="cifar10_webp.zip",
                    sha256="6d06a14a17e765cadb384d36c9563fac6cc365ac0b05d8a7b33bd2ef8c0ddc0c",
                ),
            ),
            read=_read_strips,
            notes="the training split has only the first 20,000 of CIFAR-10's 50,000 training images",
        ),
    ),
    channels=3,
    mean=(0.4914, 0.4822, 0.4465),
    std=(0.247, 0.243, 0.261),
    licence=_LICENCE,
    citation=_CITATION,
)

CIFAR100 = SetInfo(
    name="cifar100",
    title="CIFAR-100",
    splits=("train", "test"),
    forms=(
        Form(
            title="official python archive",
            files=_CIFAR100_PYTHON,
            read=_reader({"train": ("train",), "test": ("test",)}, CIFAR100_CLASSES),
        ),
        Form(
            title="official binary archive",
            files=_CIFAR100_BINARY,
            read=_reader({"train": ("train.bin",), "test": ("test.bin",)}, CIFAR100_CLASSES),
        ),
        Form(
            title="packed strips",
            files=_CIFAR100_STRIPS,
            read=_read_cifar100_strips,
            notes=_JPEG_NOTE,
        ),
        Form(
            title="part as npz",
            files=(
                DataFile(
                    name="cifar100_subset.npz",
                    sha256="ce8349ea3c3c408b93461a61bfe2a29dff979209804269c2d041a90cd9499b32",
                ),
            ),
            read=_read_part,
            notes="only 2,033 of CIFAR-100's 60,000 images, 11 to 33 of each class",
        ),
    ),
    channels=3,
    mean=(0.507, 0.487, 0.441),
    std=(0.267, 0.256, 0.276),
    folders=("cifar100", "cifar100_subset"),
    licence=_LICENCE,
    citation=_CITATION,
)

FC100 = SetInfo(
    name="fc100",
    title="FC100",
    splits=("train", "val", "test"),
    forms=(
        Form(
            title="CIFAR-100's official python archive",
            files=_CIFAR100_PYTHON,
            read=_fc100_reader("train", "test"),
        ),
        Form(
            title="CIFAR-100's official binary archive",
            files=_CIFAR100_BINARY,
            read=_fc100_reader("train.bin", "test.bin"),
        ),
        Form(
            title="CIFAR-100's packed strips",
            files=_CIFAR100_STRIPS,
            read=_read_fc100_strips,
            notes=_JPEG_NOTE,
        ),
    ),
    channels=3,
    mean=CIFAR100.mean,
    std=CIFAR100.std,
    folders=("cifar100",),
    licence=_LICENCE,
    citation="Oreshkin, Rodríguez López, Lacoste: TADAM: task dependent adaptive metric for improved "
    "few-shot learning. NeurIPS (2018). Images: " + _CITATION,
)
