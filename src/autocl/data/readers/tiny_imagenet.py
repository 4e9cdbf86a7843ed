"""Tiny-ImageNet's tree in a zip or a tar: `train/{wnid}/images/*.JPEG`, `val/images/*.JPEG`, annotations."""

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from autocl.data.readers.archive import members
from autocl.data.readers.block import Block, Raw, damaged, reading
from autocl.data.readers.pictures import decode

_KIND = "Tiny-ImageNet's archive"
_BLOCK = 500


def read_tiny_imagenet(path: Path, split: str, *, exclude: frozenset[str]) -> Raw:
    """One split; the official zip (64×64) and the packed tar (32×32) have the same tree.

    Args:
        path: the archive; a leading folder such as tiny-imagenet-200/ is allowed.
        split: "train" or "val" (the official test images have no labels).
        exclude: WordNet ids left out.
    """
    with reading(path, _KIND):
        lists = {}
        for name, data in members(path, lambda name: name.endswith(("wnids.txt", "val_annotations.txt"))):
            lists[name.rpartition("/")[2]] = data.decode()
        wnids = sorted(lists["wnids.txt"].split())
        rows = [line.split("\t")[:2] for line in lists["val_annotations.txt"].splitlines()]
        annotations = dict(rows)
    classes = tuple(wnid for wnid in wnids if wnid not in exclude)
    if not classes:
        raise damaged(path, _KIND, "wnids.txt names no class")
    label_of = {wnid: label for label, wnid in enumerate(classes)}
    tree = r"train/(n\d+)/images/[^/]+\.JPEG" if split == "train" else r"val/images/([^/]+\.JPEG)"
    pattern = re.compile(r"(?:.*/)?" + tree)

    def class_of(name: str) -> int | None:
        match = pattern.fullmatch(name)
        if match is None:
            return None
        return label_of.get(match[1] if split == "train" else annotations[match[1]])

    def blocks() -> Iterator[Block]:
        pixels, labels, seen = [], [], 0
        with reading(path, _KIND):
            for name, data in members(path, lambda name: class_of(name) is not None):
                pixels.append(decode(data, "RGB"))
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
