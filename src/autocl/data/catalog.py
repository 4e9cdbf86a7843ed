"""The registry: every set `load` knows by name."""

from autocl.data.description import SetInfo
from autocl.data.sets.cifar import CIFAR10, CIFAR100, FC100
from autocl.data.sets.digits import DIGITS
from autocl.data.sets.glyphs import GLYPHS
from autocl.data.sets.idx import FASHION_MNIST, MNIST, NOTMNIST
from autocl.data.sets.imagenet import MINI_IMAGENET, TINY_IMAGENET
from autocl.data.sets.omniglot import OMNIGLOT
from autocl.data.sets.svhn import SVHN
from autocl.errors import DataError
from autocl.names import resolve

CATALOG: dict[str, SetInfo] = {
    info.name: info
    for info in (
        OMNIGLOT, MINI_IMAGENET, FC100, TINY_IMAGENET,
        MNIST, FASHION_MNIST, CIFAR10, CIFAR100, SVHN, NOTMNIST, DIGITS, GLYPHS,
    )
}  # fmt: skip


def describe(name: str) -> SetInfo:
    """The entry of a set; a `DataError` that lists the names when there is none."""
    own = "; images of your own are a folder with one folder per class"
    return CATALOG[resolve(name, CATALOG, "image set", hint=own, error=DataError)]
