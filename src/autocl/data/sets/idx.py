"""MNIST and the sets that took over its format: Fashion-MNIST, notMNIST."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from autocl.data.description import DataFile, Form, SetInfo
from autocl.data.readers.block import Raw, hold_out
from autocl.data.readers.idx import read_idx_pair
from autocl.data.readers.notmnist import LETTERS, read_notmnist

_FASHION = (
    "t-shirt/top", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot",
)  # fmt: skip
_PREFIX = {"train": "train", "test": "t10k"}


def _reader(classes: tuple[str, ...]) -> Callable[[Mapping[str, Path], str, Mapping[str, Any]], Raw]:
    def read(files: Mapping[str, Path], split: str, options: Mapping[str, Any]) -> Raw:
        prefix = _PREFIX[split]
        images, labels = files[f"{prefix}-images-idx3-ubyte.gz"], files[f"{prefix}-labels-idx1-ubyte.gz"]
        return read_idx_pair(images, labels, classes)

    return read


_NAMES = {
    "train-images-idx3-ubyte.gz": "train",
    "train-labels-idx1-ubyte.gz": "train",
    "t10k-images-idx3-ubyte.gz": "test",
    "t10k-labels-idx1-ubyte.gz": "test",
}


def _files(sums: tuple[str, str, str, str], *bases: str) -> tuple[DataFile, ...]:
    """The four files; `sums` in the order of `_NAMES`, `bases` = folders they can be downloaded from."""
    return tuple(
        DataFile(name=name, sha256=sha256, urls=tuple(base + name for base in bases), splits=(split,))
        for (name, split), sha256 in zip(_NAMES.items(), sums, strict=True)
    )


MNIST = SetInfo(
    name="mnist",
    title="MNIST",
    splits=("train", "test"),
    forms=(
        Form(
            title="official idx files",
            files=_files(
                (
                    "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
                    "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
                    "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
                    "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
                ),
                "https://ossci-datasets.s3.amazonaws.com/mnist/",
                "https://storage.googleapis.com/cvdf-datasets/mnist/",
                "http://yann.lecun.com/exdb/mnist/",
            ),
            read=_reader(tuple("0123456789")),
        ),
    ),
    channels=1,
    mean=(0.1307,),
    std=(0.3081,),
    licence="CC BY-SA 3.0",
    citation="LeCun, Bottou, Bengio, Haffner: Gradient-based learning applied to document recognition. "
    "Proceedings of the IEEE 86 (1998).",
)

FASHION_MNIST = SetInfo(
    name="fashion_mnist",
    title="Fashion-MNIST",
    splits=("train", "test"),
    forms=(
        Form(
            title="official idx files",
            files=_files(
                (
                    "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
                    "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
                    "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
                    "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
                ),
                "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
                "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
            ),
            read=_reader(_FASHION),
        ),
    ),
    channels=1,
    mean=(0.286,),
    std=(0.353,),
    licence="MIT",
    citation="Xiao, Rasul, Vollgraf: Fashion-MNIST: a novel image dataset for benchmarking machine learning "
    "algorithms. arXiv:1708.07747 (2017).",
)


def _read_notmnist(files: Mapping[str, Path], split: str, options: Mapping[str, Any]) -> Raw:
    return hold_out(read_notmnist(files["notMNIST_small.tar.gz"]), split)


def _read_notmnist_sample(files: Mapping[str, Path], split: str, options: Mapping[str, Any]) -> Raw:
    images, labels = files["t10k-images-idx3-ubyte.gz"], files["t10k-labels-idx1-ubyte.gz"]
    return hold_out(read_idx_pair(images, labels, LETTERS), split)


NOTMNIST = SetInfo(
    name="notmnist",
    title="notMNIST",
    splits=("train", "test"),
    forms=(
        Form(
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
            read=_read_notmnist,
        ),
        Form(
            title="sample as idx files",
            files=(
                DataFile(
                    name="t10k-images-idx3-ubyte.gz",
                    sha256="70ae9e06201f2827e5b0a3781a3169d735dd2efc69996b9eeaee7f10ed4044d7",
                ),
                DataFile(
                    name="t10k-labels-idx1-ubyte.gz",
                    sha256="1fa03836e01c862542f8eb83463bb951bebec6fcb3efa28dad748c6b38a9021b",
                ),
            ),
            read=_read_notmnist_sample,
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
