"""notMNIST: the letters A to J in all kinds of type faces, 28×28 gray."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from autocl.data.archives import Block, Raw, damaged, hold_out, members, picture, reading
from autocl.data.catalog import DataFile, FileLayout, Options, SetInfo
from autocl.data.sets.mnist import read_idx_pair

_LETTERS = tuple("ABCDEFGHIJ")
_MEMBER = re.compile(r"(?:.*/)?([A-J])/([^/]+)\.png")
_UNREADABLE = {"RGVtb2NyYXRpY2FCb2xkT2xkc3R5bGUgQm9sZC50dGY=", "Q3Jvc3NvdmVyIEJvbGRPYmxpcXVlLnR0Zg=="}
"""The official archive has two files that are no pictures."""
_SAMPLE = {
    "t10k-images-idx3-ubyte.gz": "70ae9e06201f2827e5b0a3781a3169d735dd2efc69996b9eeaee7f10ed4044d7",
    "t10k-labels-idx1-ubyte.gz": "1fa03836e01c862542f8eb83463bb951bebec6fcb3efa28dad748c6b38a9021b",
}
_TOTAL = 1 << 27
"""Bytes of the 18,724 letters, 29 MB in a tar, and some to spare."""


def _wanted(name: str) -> bool:
    match = _MEMBER.fullmatch(name)
    return match is not None and match[2] not in _UNREADABLE


def _read(files: Mapping[str, Path], split: str, options: Options) -> Raw:
    """`notMNIST_small/{A…J}/*.png`."""
    kind, path = "notMNIST's archive", files["notMNIST_small.tar.gz"]

    def blocks() -> Iterator[Block]:
        seen = 0
        with reading(path, kind):
            for name, data in members(path, _wanted, total=_TOTAL):
                letter = name.split("/")[-2]
                yield picture(data, 1)[None], np.array([_LETTERS.index(letter)], np.int64)
                seen += 1
        if seen == 0:
            raise damaged(path, kind, "it has no member like notMNIST_small/A/….png")

    return hold_out(Raw(classes=_LETTERS, blocks=blocks()), split)


def _read_sample(files: Mapping[str, Path], split: str, options: Options) -> Raw:
    images, labels = (files[name] for name in _SAMPLE)
    return hold_out(read_idx_pair(images, labels, _LETTERS), split)


_SET = SetInfo(
    name="notmnist",
    title="notMNIST",
    layouts=(
        FileLayout(
            title="official tar of the small set",
            files=(
                DataFile(
                    name="notMNIST_small.tar.gz",
                    md5="c9890a473a9769fda4bdf314aaf500dd",
                    urls=(
                        "http://yaroslavvb.com/upload/notMNIST/notMNIST_small.tar.gz",
                        "https://commondatastorage.googleapis.com/books1000/notMNIST_small.tar.gz",
                    ),
                ),
            ),
            read=_read,
        ),
        FileLayout(
            title="sample as idx files",
            files=tuple(DataFile(name=name, sha256=sha256) for name, sha256 in _SAMPLE.items()),
            read=_read_sample,
            notes="a random sample of 10,000 letters of the original",
        ),
    ),
    channels=1,
    # Of the training part of the sample, at 32×32.
    mean=(0.4274,),
    std=(0.4420,),
    licence="none stated; free for research by common use",
    citation="Bulatov: notMNIST dataset. yaroslavvb.blogspot.com/2011/09/notmnist-dataset.html (2011).",
)
