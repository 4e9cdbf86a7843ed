"""Tiny-ImageNet: 200 classes of ImageNet, 500 training and 50 validation images each."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from autocl.data.archives import Block, Raw, damaged, members, picture, reading
from autocl.data.catalog import DataFile, FileLayout, Options, SetInfo

SHARED_CLASSES = frozenset({
    "n01855672", "n01910747", "n02074367", "n02099601", "n02129165", "n02165456", "n02795169", "n02823428",
    "n02950826", "n03400231", "n03544143", "n03584254", "n03770439", "n03838899", "n03854065", "n03980874",
    "n04067472", "n04146614", "n04149813", "n04251144", "n04275548", "n04596742", "n07747607", "n09246464",
    "n09256479",
})  # fmt: skip
"""Classes of Tiny-ImageNet that mini-ImageNet has, too: 14 of its train, 6 val and 5 test classes."""

_KIND = "Tiny-ImageNet's archive"
_PACKED_SUM = "344f109c49386287a2955c321fb6e391ea86be7d3bb614e2b8fc61d54414d24a"
_BLOCK = 500
_TOTAL = 1 << 29
"""Bytes of the official archive's tree, 260 MB, tar's padding, and some to spare."""
_TREE = {"train": r"train/(n\d+)/images/[^/]+\.JPEG", "val": r"val/images/([^/]+\.JPEG)"}


def _read(files: Mapping[str, Path], split: str, options: Options) -> Raw:
    """A tree of images and two lists; the official zip (64×64) and the packed tar (32×32) have the same.

    The official test images have no labels.
    """
    path = next(iter(files.values()))
    with reading(path, _KIND):
        lists = {}
        wanted = ("wnids.txt", "val_annotations.txt")
        for name, data in members(path, lambda name: name.endswith(wanted), total=_TOTAL):
            lists[name.rpartition("/")[2]] = data.decode()
        wnids = sorted(lists["wnids.txt"].split())
        rows = [line.split("\t")[:2] for line in lists["val_annotations.txt"].splitlines()]
        annotations = dict(rows)
    exclude = SHARED_CLASSES if options["exclude_mini_imagenet"] else frozenset()
    classes = tuple(wnid for wnid in wnids if wnid not in exclude)
    if not classes:
        raise damaged(path, _KIND, "wnids.txt names no class")
    label_of = {wnid: label for label, wnid in enumerate(classes)}
    pattern = re.compile(r"(?:.*/)?" + _TREE[split])

    def class_of(name: str) -> int | None:
        match = pattern.fullmatch(name)
        if match is None:
            return None
        return label_of.get(match[1] if split == "train" else annotations[match[1]])

    def blocks() -> Iterator[Block]:
        pixels, labels, seen = [], [], 0
        with reading(path, _KIND):
            for name, data in members(path, lambda name: class_of(name) is not None, total=_TOTAL):
                pixels.append(picture(data, 3))
                labels.append(class_of(name))
                seen += 1
                if len(pixels) == _BLOCK:
                    yield np.stack(pixels), np.array(labels, np.int64)
                    pixels, labels = [], []
            if pixels:
                yield np.stack(pixels), np.array(labels, np.int64)
        if seen == 0:
            raise damaged(path, _KIND, f"it has no image of the {split} split")

    return Raw(classes=classes, blocks=blocks())


_SET = SetInfo(
    name="tiny_imagenet",
    title="Tiny-ImageNet",
    splits=("train", "val"),
    layouts=(
        FileLayout(
            title="official zip",
            files=(
                DataFile(
                    name="tiny-imagenet-200.zip",
                    md5="90528d7ca1a48142e341f4ef8d21d0de",
                    urls=("http://cs231n.stanford.edu/tiny-imagenet-200.zip",),
                ),
            ),
            read=_read,
        ),
        FileLayout(
            title="packed 32×32 tar",
            files=(DataFile(name="tiny-imagenet-200-32x32.tar.xz", sha256=_PACKED_SUM),),
            read=_read,
            notes="resized from 64 to 32 pixels beforehand",
        ),
    ),
    channels=3,
    mean=(0.485, 0.456, 0.406),
    std=(0.229, 0.224, 0.225),
    options={"exclude_mini_imagenet": False},
    training_options={"exclude_mini_imagenet": True},
    held_out=20,
    licence="ImageNet terms: non-commercial research and education only",
    citation="Le, Yang: Tiny ImageNet visual recognition challenge. CS 231N (2015).",
)
