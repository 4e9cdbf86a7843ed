"""Omniglot: 1,623 characters of 50 alphabets, each drawn by 20 people; 105×105 pixels of one bit."""

import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from autocl.data.archives import Block, Raw, damaged, open_zip, picture, reading, zip_member, zip_members
from autocl.data.catalog import DataFile, FileLayout, Options, SetInfo

VALIDATION_ALPHABETS = frozenset({"Armenian", "Bengali", "Early_Aramaic", "Hebrew", "Mkhedruli_(Georgian)"})
"""The split of Vinyals et al. holds out five background alphabets for validation (172 characters), …"""
FIRST_TEST_CHARACTER = 1201
"""… and the characters numbered 1201 to 1623 for testing: the last four of Gurmukhi and every alphabet
after it (423). All else is for training (1,028)."""

_OFFICIAL = "https://raw.githubusercontent.com/brendenlake/omniglot/master/python/"
_ZIPS = {
    "images_background.zip": (
        "68d2efa1b9178cc56df9314c21c6e718",
        "5f5a75a342d9e957897e5492346ca86c970b00b917f2bd87d8c501664989e921",
    ),
    "images_evaluation.zip": (
        "6b91aef0f799c5bb55b94e3f2daec811",
        "33420bfba22f65fcf98ef2e72cb5e0a85d824356188c35950262d4cf815f8f58",
    ),
}
"""MD5 of each, and SHA-256 of another packing of it."""
_MEMBER = re.compile(r"images_(?:background|evaluation)/([^/]+)/(character\d\d)/(\d{4})_(\d\d)\.png")


def _split_of(drawing: re.Match[str]) -> str:
    if drawing[1] in VALIDATION_ALPHABETS:
        return "val"
    return "test" if int(drawing[3]) >= FIRST_TEST_CHARACTER else "train"


def _read(files: Mapping[str, Path], split: str, options: Options) -> Raw:
    """The characters of a split, inverted: strokes 255 on 0; with rotations each quarter turn is a class."""
    turns = range(4) if options["rotations"] else range(1)
    drawings: dict[str, list[tuple[str, str]]] = {}
    for zip_name in _ZIPS:
        for member in _listed(files[zip_name], split):
            drawings.setdefault("/".join(member.split("/")[1:3]), []).append((zip_name, member))

    def blocks() -> Iterator[Block]:
        with ExitStack() as stack:
            archives = {}
            for zip_name in _ZIPS:
                with reading(files[zip_name], "a zip"):
                    archives[zip_name] = stack.enter_context(open_zip(files[zip_name]))
            for number, (name, found) in enumerate(drawings.items()):
                with reading(files[found[0][0]], f"Omniglot's drawings of {name}"):
                    pixels = [255 - picture(zip_member(archives[z], member), 1) for z, member in found]
                    upright = np.stack(pixels)
                for turn in turns:
                    label = number * len(turns) + turn
                    yield np.rot90(upright, turn, axes=(1, 2)), np.full(len(upright), label, np.int64)

    names = [name + (f"/rot{90 * turn:03d}" if turn else "") for name in drawings for turn in turns]
    return Raw(classes=tuple(names), blocks=blocks())


def _listed(path: Path, split: str) -> list[str]:
    """The drawings of a split in one of the zips, sorted by name."""
    kind = "Omniglot's " + path.name
    with reading(path, kind), open_zip(path) as archive:
        list(zip_members(archive, lambda name: False))  # compares the names with their copies
        matches = [match for name in archive.namelist() if (match := _MEMBER.fullmatch(name)) is not None]
    if not matches:
        raise damaged(path, kind, "no member is like images_background/Alphabet/character01/0001_01.png")
    return sorted(match[0] for match in matches if _split_of(match) == split)


_SET = SetInfo(
    name="omniglot",
    title="Omniglot",
    splits=("train", "val", "test"),
    layouts=(
        FileLayout(
            title="official zips",
            files=tuple(
                DataFile(name=name, md5=md5, equivalent=(other,), urls=(_OFFICIAL + name,))
                for name, (md5, other) in _ZIPS.items()
            ),
            read=_read,
        ),
    ),
    channels=1,
    # Of the inverted training drawings at 32×32, without rotations; the authors' values, which belong to
    # black strokes on white, put the background at −11.
    mean=(0.0782,),
    std=(0.2230,),
    paper_mean=(0.922,),
    paper_std=(0.084,),
    options={"rotations": False},
    licence="MIT",
    citation="Lake, Salakhutdinov, Tenenbaum: Human-level concept learning through probabilistic program "
    "induction. Science 350 (2015). Split: Vinyals et al., Matching Networks (2016).",
)
