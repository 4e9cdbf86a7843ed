"""CIFAR-10, CIFAR-100, and FC100, which splits CIFAR-100 by super-class; 32×32 colour photographs."""

import io
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from autocl.data.archives import Block, Raw, cut_strip, damaged, extract, open_zip, reading, zip_member
from autocl.data.catalog import DataFile, FileLayout, Options, SetInfo

_CITATION = "Krizhevsky: Learning multiple layers of features from tiny images. Technical report (2009)."
_LICENCE = "none stated; free for research by common use"
_PIXELS = 3 * 32 * 32
_BLOCK = 1000
_TOTAL = 1 << 28
"""Bytes of 60,000 images, 184 MB in a tar, and some to spare."""

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


def _fc100_classes(split: str) -> tuple[str, ...]:
    held_out = {name for names in FC100_SPLIT.values() for name in names}
    chosen = FC100_SPLIT.get(split) or [name for name in SUPER_CLASSES if name not in held_out]
    return tuple(sorted(name for coarse in chosen for name in SUPER_CLASSES[coarse].split()))


def _read_binary(
    path: Path, parts: tuple[str, ...], classes: tuple[str, ...], known: tuple[str, ...] = CIFAR100_CLASSES
) -> Raw:
    """The official binary archives.

    Args:
        path: the archive.
        parts: members PART.bin to read, in this order. Their records are one label byte (CIFAR-100: a coarse
            one before it) and 3,072 pixels.
        classes: those to read; they become classes 0, 1, …
        known: names of all (fine) labels.
    """
    kind, members = "CIFAR's binary archive", [f"{part}.bin" for part in parts]
    class_of = np.full(256, -1, np.int64)
    class_of[[known.index(name) for name in classes]] = np.arange(len(classes))
    record = _PIXELS + (2 if len(known) > 10 else 1)

    def blocks() -> Iterator[Block]:
        with reading(path, kind), tempfile.TemporaryDirectory() as folder:
            files = extract(path, members, Path(folder), total=_TOTAL)
            for part in members:
                size = files[part].stat().st_size
                if size == 0 or size % record:
                    raise damaged(path, kind, f"{size} bytes of {part} are no whole number of records")
                for at in range(0, size, _BLOCK * record):
                    flat: npt.NDArray[np.uint8]
                    flat = np.fromfile(files[part], np.uint8, _BLOCK * record, offset=at)
                    rows = flat.reshape(-1, record)
                    labels = rows[:, -_PIXELS - 1]
                    if labels.max() >= len(known):
                        raise damaged(path, kind, f"{part} holds labels beyond {len(known)} classes")
                    numbers = class_of[labels]
                    images = rows[:, -_PIXELS:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
                    yield images[numbers >= 0], numbers[numbers >= 0]

    return Raw(classes=classes, blocks=blocks())


def _read_cifar10(files: Mapping[str, Path], split: str, options: Options) -> Raw:
    parts = tuple(f"data_batch_{n}" for n in range(1, 6)) if split == "train" else ("test_batch",)
    return _read_binary(next(iter(files.values())), parts, CIFAR10_CLASSES, CIFAR10_CLASSES)


def _read_cifar10_strips(files: Mapping[str, Path], split: str, options: Options) -> Raw:
    """`{split}/NNN.webp` in file order, and `{split}/labels.npy`."""
    kind, path = "CIFAR-10 packed as strips", next(iter(files.values()))

    def blocks() -> Iterator[Block]:
        with reading(path, kind), open_zip(path) as archive:
            labels = np.load(io.BytesIO(zip_member(archive, f"{split}/labels.npy")), allow_pickle=False)
            strips = sorted(m for m in archive.namelist() if m.startswith(f"{split}/") and m.endswith("webp"))
            known = labels.max(initial=0) < len(CIFAR10_CLASSES)
            if labels.ndim != 1 or not strips or len(labels) % len(strips) or not known:
                raise damaged(path, kind, f"{labels.shape} labels do not match {len(strips)} strips")
            per_strip = len(labels) // len(strips)
            for number, member in enumerate(strips):
                part = labels[number * per_strip : (number + 1) * per_strip]
                yield cut_strip(zip_member(archive, member), per_strip), part.astype(np.int64)

    return Raw(classes=CIFAR10_CLASSES, blocks=blocks())


def _read_class_strips(path: Path, parts: tuple[str, ...], classes: tuple[str, ...]) -> Raw:
    """CIFAR-100 as `{part}/{class}.jpg`, and `meta.json` with the file names of each strip."""
    kind = "CIFAR-100 packed as strips"

    def blocks() -> Iterator[Block]:
        with reading(path, kind), open_zip(path) as archive:
            files = json.loads(zip_member(archive, "meta.json"))["files"]
            for part in parts:
                for label, name in enumerate(classes):
                    count = len(files[f"{part}/{name}"])
                    strip = cut_strip(zip_member(archive, f"{part}/{name}.jpg"), count)
                    yield strip, np.full(count, label, np.int64)

    return Raw(classes=classes, blocks=blocks())


def _binary(name: str, md5: str) -> tuple[DataFile]:
    return (DataFile(name=name, md5=md5, urls=("https://www.cs.toronto.edu/~kriz/" + name,)),)


_CIFAR10_BINARY = _binary("cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530")
_CIFAR100_BINARY = _binary("cifar-100-binary.tar.gz", "03b5dce01913d631647c71ecec9e9cb8")
_CIFAR10_WEBP = "6d06a14a17e765cadb384d36c9563fac6cc365ac0b05d8a7b33bd2ef8c0ddc0c"
_CIFAR100_JPEG = "0b5e89d8c5006df9e126e64ed692cbcfe4f3a4a110c41f1aeb233815618482c6"
_CIFAR100_STRIPS = (DataFile(name="cifar100_jpeg.zip", sha256=_CIFAR100_JPEG),)
_JPEG_NOTE = "the images went through JPEG (quality 96), so pixels differ a little from CIFAR-100's own"
_Wanted = tuple[tuple[str, ...], tuple[str, ...]]
"""Parts of CIFAR-100 to read, and classes in them."""


def _cifar100_layouts(owner: str, wanted: Callable[[str], _Wanted]) -> tuple[FileLayout, ...]:
    """The two layouts of CIFAR-100's files, for a set that takes from them what is wanted for a split."""

    def reader(read: Callable[..., Raw]) -> Callable[[Mapping[str, Path], str, Options], Raw]:
        return lambda files, split, options: read(next(iter(files.values())), *wanted(split))

    binary, strips = f"{owner}official binary archive", f"{owner}packed strips"
    return (
        FileLayout(title=binary, files=_CIFAR100_BINARY, read=reader(_read_binary)),
        FileLayout(title=strips, files=_CIFAR100_STRIPS, read=reader(_read_class_strips), notes=_JPEG_NOTE),
    )


_CIFAR10 = SetInfo(
    name="cifar10",
    title="CIFAR-10",
    layouts=(
        FileLayout(title="official binary archive", files=_CIFAR10_BINARY, read=_read_cifar10),
        FileLayout(
            title="packed strips",
            files=(DataFile(name="cifar10_webp.zip", sha256=_CIFAR10_WEBP),),
            read=_read_cifar10_strips,
            notes="the training split has only the first 20,000 of CIFAR-10's 50,000 training images",
        ),
    ),
    channels=3,
    mean=(0.4914, 0.4822, 0.4465),
    std=(0.247, 0.243, 0.261),
    test_images=10_000,
    licence=_LICENCE,
    citation=_CITATION,
)

_CIFAR100 = SetInfo(
    name="cifar100",
    title="CIFAR-100",
    layouts=_cifar100_layouts("", lambda split: ((split,), CIFAR100_CLASSES)),
    channels=3,
    mean=(0.507, 0.487, 0.441),
    std=(0.267, 0.256, 0.276),
    test_images=10_000,
    licence=_LICENCE,
    citation=_CITATION,
)

_FC100 = replace(
    _CIFAR100,
    name="fc100",
    title="FC100",
    splits=("train", "val", "test"),
    # It has 600 images a class: those of CIFAR-100's train and test sets together.
    layouts=_cifar100_layouts("CIFAR-100's ", lambda split: (("train", "test"), _fc100_classes(split))),
    test_images=0,
    folders=("cifar100",),
    citation="Oreshkin, Rodríguez López, Lacoste: TADAM: task dependent adaptive metric for improved "
    "few-shot learning. NeurIPS (2018). Images: " + _CITATION,
)
