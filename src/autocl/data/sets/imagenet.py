"""The two miniatures of ImageNet: mini-ImageNet (64/16/20 classes) and Tiny-ImageNet (200 classes)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from autocl.data.description import DataFile, Form, SetInfo
from autocl.data.readers.block import Raw
from autocl.data.readers.mini_imagenet import read_listed, read_pickled
from autocl.data.readers.strips import read_class_strips
from autocl.data.readers.tiny_imagenet import read_tiny_imagenet

_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_LICENCE = "ImageNet terms: non-commercial research and education only"

SHARED_CLASSES = frozenset({
    "n01855672", "n01910747", "n02074367", "n02099601", "n02129165", "n02165456", "n02795169", "n02823428",
    "n02950826", "n03400231", "n03544143", "n03584254", "n03770439", "n03838899", "n03854065", "n03980874",
    "n04067472", "n04146614", "n04149813", "n04251144", "n04275548", "n04596742", "n07747607", "n09246464",
    "n09256479",
})  # fmt: skip
"""What Tiny-ImageNet and mini-ImageNet have in common: 14 of its train, 6 val and 5 test classes."""


def _read_pickle(files: Mapping[str, Path], split: str, options: Mapping[str, Any]) -> Raw:
    return read_pickled(next(iter(files.values())), split)


def _read_listed(files: Mapping[str, Path], split: str, options: Mapping[str, Any]) -> Raw:
    return read_listed(files["images"], files[f"{split}.csv"])


def _read_packed(files: Mapping[str, Path], split: str, options: Mapping[str, Any]) -> Raw:
    return read_class_strips(files["mini_imagenet32_jpeg.zip"], split)


MINI_IMAGENET = SetInfo(
    name="mini_imagenet",
    title="mini-ImageNet",
    splits=("train", "val", "test"),
    forms=(
        Form(
            title="tar of the cached pickles",
            files=(
                DataFile(
                    name="mini-imagenet.tar.gz",
                    md5="b38f1eb4251fb9459ecc8e7febf9b2eb",
                    # Drive refuses while the file is over its daily quota; the check sum notices.
                    urls=(
                        "https://drive.usercontent.google.com/download"
                        "?id=16V_ZlkW4SsnNDtnGmaBRq2OoPmUOc5mY&export=download&confirm=t",
                    ),
                ),
            ),
            read=_read_pickle,
        ),
        Form(
            title="cached pickles",
            files=tuple(
                DataFile(name=f"mini-imagenet-cache-{split}.pkl", splits=(split,))
                for split in ("train", "val", "test")
            ),
            read=_read_pickle,
        ),
        Form(
            title="folder of JPEG files with the split's csv",
            files=(
                DataFile(name="images"),
                *(DataFile(name=f"{split}.csv", splits=(split,)) for split in ("train", "val", "test")),
            ),
            read=_read_listed,
        ),
        Form(
            title="packed 32×32 strips",
            files=(
                DataFile(
                    name="mini_imagenet32_jpeg.zip",
                    sha256="9f07641d457f1628ef91f6f462a32777e18b51976b1a056f8600e8a4252370b7",
                ),
            ),
            read=_read_packed,
            notes="resized from 84 to 32 pixels with a Lanczos filter and stored as JPEG",
        ),
    ),
    channels=3,
    mean=_MEAN,
    std=_STD,
    licence=_LICENCE,
    citation="Vinyals et al.: Matching networks for one shot learning. NeurIPS (2016). "
    "Split: Ravi, Larochelle: Optimization as a model for few-shot learning. ICLR (2017).",
)


def _read_tiny(files: Mapping[str, Path], split: str, options: Mapping[str, Any]) -> Raw:
    exclude = SHARED_CLASSES if options["exclude_mini_imagenet"] else frozenset()
    return read_tiny_imagenet(next(iter(files.values())), split, exclude=exclude)


TINY_IMAGENET = SetInfo(
    name="tiny_imagenet",
    title="Tiny-ImageNet",
    splits=("train", "val"),
    forms=(
        Form(
            title="official zip",
            files=(
                DataFile(
                    name="tiny-imagenet-200.zip",
                    md5="90528d7ca1a48142e341f4ef8d21d0de",
                    urls=("http://cs231n.stanford.edu/tiny-imagenet-200.zip",),
                ),
            ),
            read=_read_tiny,
        ),
        Form(
            title="packed 32×32 tar",
            files=(
                DataFile(
                    name="tiny-imagenet-200-32x32.tar.xz",
                    sha256="344f109c49386287a2955c321fb6e391ea86be7d3bb614e2b8fc61d54414d24a",
                ),
            ),
            read=_read_tiny,
            notes="resized from 64 to 32 pixels beforehand",
        ),
    ),
    channels=3,
    mean=_MEAN,
    std=_STD,
    options={"exclude_mini_imagenet": False},
    licence=_LICENCE,
    citation="Le, Yang: Tiny ImageNet visual recognition challenge. CS 231N (2015).",
)
