"""Omniglot's two official zips: `images_*/Alphabet/characterNN/DDDD_NN.png`, 105×105, one bit."""

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from autocl.data.readers.block import Block, Raw, damaged, reading
from autocl.data.readers.pictures import decode
from autocl.data.readers.zips import Zip

VALIDATION_ALPHABETS = frozenset({"Armenian", "Bengali", "Early_Aramaic", "Hebrew", "Mkhedruli_(Georgian)"})
"""The split of Vinyals et al. holds out five background alphabets for validation (172 characters), …"""
FIRST_TEST_CHARACTER = 1201
"""… and the characters numbered 1201 to 1623 for testing: the last four of Gurmukhi and every alphabet
after it (423). All else is for training (1,028)."""

_MEMBER = re.compile(r"images_(?:background|evaluation)/([^/]+)/(character\d\d)/(\d{4})_(\d\d)\.png")


def split_of(alphabet: str, number: int) -> str:
    """Which split the character belongs to.

    Args:
        alphabet: folder name, e.g. "Hebrew".
        number: the character's number in the file names, 1 to 1623.
    """
    if alphabet in VALIDATION_ALPHABETS:
        return "val"
    return "test" if number >= FIRST_TEST_CHARACTER else "train"


def read_omniglot(background: Path, evaluation: Path, split: str, *, rotations: bool) -> Raw:
    """The characters of a split, inverted: strokes 255 on 0.

    Args:
        background: images_background.zip.
        evaluation: images_evaluation.zip.
        split: "train", "val" or "test".
        rotations: also give each character turned by 90, 180 and 270 degrees as a class of its own.
    """
    turns = range(4) if rotations else range(1)
    members: dict[str, list[tuple[Path, int]]] = {}
    for path in (background, evaluation):
        kind = "Omniglot's " + path.name
        drawings, chosen = 0, []
        with reading(path, kind), path.open("rb") as file:
            for entry in Zip(file).entries():
                match = _MEMBER.fullmatch(entry.name)
                if match is not None:
                    drawings += 1
                    if split_of(match[1], int(match[3])) == split:
                        chosen.append(entry)
        if drawings == 0:
            raise damaged(path, kind, "no member is like images_background/Alphabet/character01/0001_01.png")
        for entry in sorted(chosen):
            members.setdefault("/".join(entry.name.split("/")[1:3]), []).append((path, entry.at))

    def blocks() -> Iterator[Block]:
        with background.open("rb") as first, evaluation.open("rb") as second:
            with reading(background, "a zip"), reading(evaluation, "a zip"):
                archives = {background: Zip(first), evaluation: Zip(second)}
            for number, (name, drawings) in enumerate(members.items()):
                with reading(drawings[0][0], f"Omniglot's drawings of {name}"):
                    pixels = [255 - decode(archives[path].read(at), "L") for path, at in drawings]
                    upright = np.stack(pixels)
                for turn in turns:
                    label = number * len(turns) + turn
                    yield np.rot90(upright, turn, axes=(1, 2)), np.full(len(upright), label, np.int64)

    names = [name + (f"/rot{90 * turn:03d}" if turn else "") for name in members for turn in turns]
    return Raw(classes=tuple(names), blocks=blocks())
