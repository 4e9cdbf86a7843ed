"""Omniglot: 1,623 characters of 50 alphabets, each drawn by 20 people."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from autocl.data.description import DataFile, Form, SetInfo
from autocl.data.readers.block import Raw
from autocl.data.readers.omniglot import read_omniglot

_OFFICIAL = "https://raw.githubusercontent.com/brendenlake/omniglot/master/python/"


def _read(files: Mapping[str, Path], split: str, options: Mapping[str, Any]) -> Raw:
    return read_omniglot(
        files["images_background.zip"], files["images_evaluation.zip"], split, rotations=options["rotations"]
    )


OMNIGLOT = SetInfo(
    name="omniglot",
    title="Omniglot",
    splits=("train", "val", "test"),
    forms=(
        Form(
            title="official zips",
            files=(
                DataFile(
                    name="images_background.zip",
                    md5="68d2efa1b9178cc56df9314c21c6e718",
                    equivalent=("5f5a75a342d9e957897e5492346ca86c970b00b917f2bd87d8c501664989e921",),
                    urls=(_OFFICIAL + "images_background.zip",),
                ),
                DataFile(
                    name="images_evaluation.zip",
                    md5="6b91aef0f799c5bb55b94e3f2daec811",
                    equivalent=("33420bfba22f65fcf98ef2e72cb5e0a85d824356188c35950262d4cf815f8f58",),
                    urls=(_OFFICIAL + "images_evaluation.zip",),
                ),
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
