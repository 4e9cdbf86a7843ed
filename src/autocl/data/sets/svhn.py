"""SVHN: digits cropped from photographs of house numbers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from autocl.data.description import DataFile, Form, SetInfo
from autocl.data.readers.block import Raw, hold_out
from autocl.data.readers.svhn import read_svhn, read_svhn_part

_URL = "http://ufldl.stanford.edu/housenumbers/"


def _read(files: Mapping[str, Path], split: str, options: Mapping[str, Any]) -> Raw:
    return read_svhn(files[f"{split}_32x32.mat"])


def _read_part(files: Mapping[str, Path], split: str, options: Mapping[str, Any]) -> Raw:
    return hold_out(read_svhn_part(next(iter(files.values()))), split)


SVHN = SetInfo(
    name="svhn",
    title="SVHN",
    splits=("train", "test"),
    forms=(
        Form(
            title="official MATLAB files",
            files=(
                DataFile(
                    name="train_32x32.mat",
                    md5="e26dedcc434d2e4c54c9b2d4a06d8373",
                    urls=(_URL + "train_32x32.mat",),
                    splits=("train",),
                ),
                DataFile(
                    name="test_32x32.mat",
                    md5="eb5a983be6a315427106f1b164d9cef3",
                    urls=(_URL + "test_32x32.mat",),
                    splits=("test",),
                ),
            ),
            read=_read,
        ),
        Form(
            title="part as npz",
            files=(
                DataFile(
                    name="svhn_train_first1083.npz",
                    sha256="166e2ba84f2533b505a7b73e97663f7e513a330a3243c82ca80dc470cd939230",
                ),
            ),
            read=_read_part,
            notes="only the first 1,083 of SVHN's 73,257 training crops, and none of its test crops",
        ),
    ),
    channels=3,
    mean=(0.4376821, 0.4437697, 0.47280442),
    std=(0.19803012, 0.20101562, 0.19703614),
    folders=("svhn", "svhn_subset"),
    licence="non-commercial use only",
    citation="Netzer et al.: Reading digits in natural images with unsupervised feature learning. "
    "NIPS workshop (2011).",
)
