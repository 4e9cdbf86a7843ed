"""notMNIST's official tar: `notMNIST_small/{A…J}/*.png`, 28×28 gray."""

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from autocl.data.readers.archive import members
from autocl.data.readers.block import Block, Raw, damaged, reading
from autocl.data.readers.pictures import decode

LETTERS = tuple("ABCDEFGHIJ")
_MEMBER = re.compile(r"(?:.*/)?([A-J])/([^/]+)\.png")
_UNREADABLE = {"RGVtb2NyYXRpY2FCb2xkT2xkc3R5bGUgQm9sZC50dGY=", "Q3Jvc3NvdmVyIEJvbGRPYmxpcXVlLnR0Zg=="}
"""The official archive has two files that are no pictures."""


def read_notmnist(path: Path) -> Raw:
    """All letters of `notMNIST_small.tar.gz`, without the two files that cannot be read."""
    kind = "notMNIST's archive"

    def wanted(name: str) -> bool:
        match = _MEMBER.fullmatch(name)
        return match is not None and match[2] not in _UNREADABLE

    def blocks() -> Iterator[Block]:
        seen = 0
        with reading(path, kind):
            for name, data in members(path, wanted):
                letter = name.split("/")[-2]
                yield decode(data, "L")[None], np.array([LETTERS.index(letter)], np.int64)
                seen += 1
        if seen == 0:
            raise damaged(path, kind, "it has no member like notMNIST_small/A/….png")

    return Raw(classes=LETTERS, blocks=blocks())
