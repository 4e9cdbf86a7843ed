"""mini-ImageNet: 64, 16 and 20 classes of ImageNet for training, validation and testing, 600 images each."""

import csv
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from autocl.data.archives import Block, Raw, cut_strip, damaged, open_zip, picture, reading, zip_member
from autocl.data.catalog import DataFile, FileLayout, Options, SetInfo

_SPLITS = ("train", "val", "test")
_BLOCK = 300
_JPEG_SUM = "9f07641d457f1628ef91f6f462a32777e18b51976b1a056f8600e8a4252370b7"


def _read_arrays(files: Mapping[str, Path], split: str, options: Options) -> Raw:
    """Arrays by `tools.convert_mini_imagenet`: images [n, H, W, 3], and the rows of each WordNet id."""
    kind, path = "mini-ImageNet as converted from its pickles", files[f"mini-imagenet-{split}.npy"]
    with reading(path, kind):
        images = np.load(path, mmap_mode="r", allow_pickle=False)
        rows = json.loads(files[f"mini-imagenet-{split}.json"].read_text())
        classes = tuple(sorted(rows))
        label = np.full(len(images), -1, np.int64)
        for number, wnid in enumerate(classes):
            label[np.asarray(rows[wnid], np.int64)] = number
        if images.dtype != np.uint8 or images.ndim != 4 or images.shape[3] != 3 or (label < 0).any():
            raise damaged(path, kind, f"{len(classes)} classes do not cover images {list(images.shape)}")

    def blocks() -> Iterator[Block]:
        for at in range(0, len(label), _BLOCK):
            yield np.array(images[at : at + _BLOCK]), label[at : at + _BLOCK]

    return Raw(classes=classes, blocks=blocks())


def _read_listed(files: Mapping[str, Path], split: str, options: Options) -> Raw:
    """JPEG files named in a csv with columns `filename` and `label`, as Ravi and Larochelle published it."""
    kind, folder, table = "the csv of a mini-ImageNet split", files["images"], files[f"{split}.csv"]
    with reading(table, kind), table.open(newline="") as file:
        listed = [(row["filename"], row["label"]) for row in csv.DictReader(file)]
    if not listed or not all(name and wnid for name, wnid in listed):
        raise damaged(table, kind, "it lists no image, or one without a label")
    classes = tuple(sorted({wnid for _, wnid in listed}))
    number = {wnid: label for label, wnid in enumerate(classes)}

    def blocks() -> Iterator[Block]:
        for name, wnid in listed:
            with reading(folder / name, "an image of mini-ImageNet"):
                pixels = picture(folder / name, 3)
            yield pixels[None], np.array([number[wnid]], np.int64)

    return Raw(classes=classes, blocks=blocks())


def _read_strips(files: Mapping[str, Path], split: str, options: Options) -> Raw:
    """`{split}/{wnid}_{part}.jpg`, and `meta.json` with the split's file names per class."""
    kind, path = "mini-ImageNet packed as strips", files["mini_imagenet32_jpeg.zip"]
    with reading(path, kind), open_zip(path) as archive:
        meta = json.loads(zip_member(archive, "meta.json"))
        per_strip = int(meta["per_strip"])
        counts = {str(wnid): len(names) for wnid, names in sorted(meta["files"][split].items())}
    if not counts or any(count % per_strip for count in counts.values()):
        raise damaged(path, kind, f"its classes do not fill strips of {per_strip} pictures")

    def blocks() -> Iterator[Block]:
        with reading(path, kind), open_zip(path) as archive:
            for label, (wnid, count) in enumerate(counts.items()):
                for part in range(count // per_strip):
                    strip = cut_strip(zip_member(archive, f"{split}/{wnid}_{part}.jpg"), per_strip)
                    yield strip, np.full(per_strip, label, np.int64)

    return Raw(classes=tuple(counts), blocks=blocks())


_SET = SetInfo(
    name="mini_imagenet",
    title="mini-ImageNet",
    splits=_SPLITS,
    layouts=(
        FileLayout(
            title="arrays converted from the cached pickles",
            files=tuple(
                DataFile(name=f"mini-imagenet-{split}.{kind}", splits=(split,))
                for split in _SPLITS
                for kind in ("npy", "json")
            ),
            read=_read_arrays,
        ),
        FileLayout(
            title="folder of JPEG files with the split's csv",
            files=(
                DataFile(name="images"),
                *(DataFile(name=f"{split}.csv", splits=(split,)) for split in _SPLITS),
            ),
            read=_read_listed,
        ),
        FileLayout(
            title="packed 32×32 strips",
            files=(DataFile(name="mini_imagenet32_jpeg.zip", sha256=_JPEG_SUM),),
            read=_read_strips,
            notes="resized from 84 to 32 pixels with a Lanczos filter and stored as JPEG",
        ),
    ),
    channels=3,
    mean=(0.485, 0.456, 0.406),
    std=(0.229, 0.224, 0.225),
    advice="The mini-imagenet-cache-*.pkl that are passed around become such arrays by "
    "python -m tools.convert_mini_imagenet, in a checkout of autocl",
    licence="ImageNet terms: non-commercial research and education only",
    citation="Vinyals et al.: Matching networks for one shot learning. NeurIPS (2016). "
    "Split: Ravi, Larochelle: Optimization as a model for few-shot learning. ICLR (2017).",
)
