"""ImageSet and FeatureSet: labelled images, or vectors, sorted by class; LabelledSet is either.

Shape legend: n = rows, C = channels, H, W = pixels, F = features, K = classes.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import get_args

import numpy as np
import numpy.typing as npt
import torch

from autocl.config import check_choice
from autocl.data.preprocess import Standardise, standardise_each, standardise_set, unit_range
from autocl.errors import DataError, InputError

Augmentation = Callable[[torch.Tensor, torch.Generator], torch.Tensor]
"""float32 [n, C, H, W] in [0, 1] and a generator -> the same shape and range; see `autocl.data.Augment`."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelledSet(ABC):
    """Images or vectors of K classes, sorted by class; those of class c are rows starts[c]:starts[c+1]."""

    name: str
    split: str
    starts: npt.NDArray[np.int64]
    """[K + 1], rising from 0 to n."""
    classes: tuple[str, ...]
    """Class names [K], unique across the splits of a set, so that leakage between splits can be asserted."""
    hash: str = ""
    """SHA-256 of the content: two sets are the same data iff these agree."""
    order: npt.NDArray[np.int64] | None = None
    """[n]: position of each row in the file it was read from; rises within a class. None: unknown."""
    notes: str = ""
    """Remarks that results made from this copy of the data must carry, e.g. that it is only a part."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Shape of one image [C, H, W] or vector [F]."""

    @abstractmethod
    def take(self, index: torch.Tensor) -> torch.Tensor:
        """Network input float32 [..., …] for a tensor of row numbers [...]."""

    @property
    def n_classes(self) -> int:
        """Number of classes, K."""
        return len(self.classes)

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """Rows per class, [K]."""
        return np.diff(self.starts)

    @property
    def labels(self) -> npt.NDArray[np.int64]:
        """Class number of each row, [n]."""
        return np.repeat(np.arange(self.n_classes, dtype=np.int64), self.counts)

    def check_rows(self, n: int) -> None:
        """Refuse boundaries that do not divide n rows among the classes, and an order that is not of them."""
        rising = len(self.starts) == self.n_classes + 1 and bool(np.all(np.diff(self.starts) >= 0))
        if not (rising and self.starts[0] == 0 and self.starts[-1] == n):
            raise InputError(
                f"set {self.name!r}: starts must rise from 0 to {n} with one entry more than the "
                f"{self.n_classes} classes"
            )
        if self.order is not None and self.order.shape != (n,):
            raise InputError(
                f"set {self.name!r}: order must have one entry for each of the {n} rows, got shape "
                f"{list(self.order.shape)}"
            )


def content_hash(images: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], classes: Sequence[str]) -> str:
    """SHA-256 over shape, pixels, class boundaries and class names."""
    digest = start_hash(images.shape, starts, classes)
    digest.update(np.ascontiguousarray(images).data)
    return digest.hexdigest()


def start_hash(
    shape: tuple[int, ...], starts: npt.NDArray[np.int64], classes: Sequence[str]
) -> "hashlib._Hash":
    """The content hash before any pixel went in, for those who have the pixels piece by piece."""
    digest = hashlib.sha256(repr((shape, tuple(classes))).encode())
    digest.update(np.ascontiguousarray(starts, dtype="<i8").data)
    return digest


@dataclass(frozen=True, kw_only=True, eq=False)
class ImageSet(LabelledSet):
    """Images of K classes, sorted by class, as uint8.

    `take` is the only way from its pixels to network input; the channel statistics travel with the set.

    Example:
        >>> import numpy as np
        >>> images = np.zeros((4, 1, 8, 8), np.uint8)
        >>> s = ImageSet(name="toy", split="train", images=images, starts=np.array([0, 2, 4]),
        ...              classes=("a", "b"), mean=(0.5,), std=(0.5,))
        >>> s.n_classes, s.take(torch.tensor([0, 3]), channels=3).shape
        (2, torch.Size([2, 3, 8, 8]))
    """

    images: npt.NDArray[np.uint8]
    """[n, C, H, W], possibly memory-mapped."""
    mean: tuple[float, ...]
    """Per-channel mean of pixels scaled to [0, 1]; length C."""
    std: tuple[float, ...]

    def __post_init__(self) -> None:
        if self.images.ndim != 4 or self.images.dtype != np.uint8:
            raise InputError(
                f"image set {self.name!r}: images must be uint8 [n, C, H, W], got "
                f"{self.images.dtype} {list(self.images.shape)}"
            )
        self.check_rows(len(self.images))
        if not len(self.mean) == len(self.std) == self.images.shape[1]:
            raise InputError(
                f"image set {self.name!r}: mean {self.mean} and std {self.std} must have one value for each "
                f"of the {self.images.shape[1]} channels"
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """[C, H, W]."""
        return self.images.shape[1:]

    def take(
        self,
        index: torch.Tensor,
        *,
        channels: int | None = None,
        augment: Augmentation | None = None,
        generator: torch.Generator | None = None,
        standardise: Standardise = "set",
    ) -> torch.Tensor:
        """Standardised float32 images for a tensor of row numbers.

        Args:
            index: int64, any shape [...].
            channels: number of channels wanted; a one-channel set is repeated. Default: as stored.
            augment: changes the pixels, scaled to [0, 1], before they are standardised.
            generator: source of the augmentation's randomness; needed with `augment`.
            standardise: "set" by this set's mean and std; "image" each image by its own.

        Returns:
            float32 [..., channels, H, W].
        """
        have = self.images.shape[1]
        if channels is not None and channels != have and have != 1:
            raise InputError(
                f"image set {self.name!r} has {have} channels and cannot give {channels}: "
                f"load it with channels={channels}"
            )
        if augment is not None and generator is None:
            raise InputError("take(augment=…) needs generator=…: augmentation is random and must be seeded")
        check_choice("standardise", standardise, get_args(Standardise))
        x = unit_range(self.images[index.reshape(-1).numpy()])
        if augment is not None and generator is not None:
            x = augment(x, generator)
        x = standardise_each(x) if standardise == "image" else standardise_set(x, self.mean, self.std)
        if channels is not None and channels != have:
            x = x.expand(-1, channels, -1, -1)
        return x.reshape(*index.shape, *x.shape[1:])


def some_rows(images: ImageSet, rows: npt.NDArray[np.int64]) -> ImageSet:
    """Some images of a set as a set of their own, its classes as before; one may be left without images.

    Args:
        images: the set.
        rows: which, rising.
    """
    label = images.labels[rows]
    digest = hashlib.sha256(np.ascontiguousarray(rows, dtype="<i8").data)
    return replace(
        images,
        images=images.images[rows],
        starts=np.searchsorted(label, np.arange(images.n_classes + 1)).astype(np.int64),
        hash=f"{images.hash}[{digest.hexdigest()[:16]}]" if images.hash else "",
        order=None if images.order is None else images.order[rows],
    )


def assert_disjoint(*sets: LabelledSet) -> None:
    """Refuse sets that share a class, such as a training split that leaks into a test split.

    Classes are told apart by name alone, so splits of one set and sets with common names are both covered.

    Raises:
        DataError: naming the two sets and the shared classes.

    Example:
        >>> import numpy as np
        >>> def toy(split, *classes):
        ...     return ImageSet(name="toy", split=split, images=np.zeros((len(classes), 1, 8, 8), np.uint8),
        ...                     starts=np.arange(len(classes) + 1), classes=classes, mean=(0.5,), std=(0.5,))
        >>> assert_disjoint(toy("train", "a", "b"), toy("val", "c"), toy("test", "d"))
    """
    for a, b in combinations(sets, 2):
        shared = sorted(set(a.classes) & set(b.classes))
        if shared:
            shown = ", ".join(shared[:5]) + (", …" if len(shared) > 5 else "")
            raise DataError(
                f"{a.name}/{a.split} and {b.name}/{b.split} share {len(shared)} classes ({shown}): "
                "results on one would leak from the other; drop them from one of the sets"
            )


Floats = npt.NDArray[np.float16] | npt.NDArray[np.float32]


@dataclass(frozen=True, kw_only=True, eq=False)
class FeatureSet(LabelledSet):
    """Vectors of K classes, sorted by class, possibly memory-mapped.

    Example:
        >>> features = np.arange(8, dtype=np.float16).reshape(4, 2)
        >>> s = FeatureSet(name="toy", split="train", features=features, starts=np.array([0, 2, 4]),
        ...                classes=("a", "b"))
        >>> s.n_classes, s.take(torch.tensor([[0], [3]])).tolist()
        (2, [[[0.0, 1.0]], [[6.0, 7.0]]])
    """

    features: Floats
    """[n, F]. Their hash names images, backbone and precision."""
    backbone: str = ""
    """Name of the backbone; empty: ready-made vectors."""

    def __post_init__(self) -> None:
        if self.features.ndim != 2 or self.features.dtype not in (np.float16, np.float32):
            raise InputError(
                f"feature set {self.name!r}: features must be float16 or float32 [n, F], got "
                f"{self.features.dtype} {list(self.features.shape)}"
            )
        self.check_rows(len(self.features))

    @property
    def shape(self) -> tuple[int, ...]:
        """[F]."""
        return self.features.shape[1:]

    @property
    def n_features(self) -> int:
        """Length of a vector, F."""
        return int(self.features.shape[1])

    def take(self, index: torch.Tensor) -> torch.Tensor:
        """Vectors float32 [..., F] for a tensor of row numbers, int64 of any shape [...]."""
        rows = self.features[index.reshape(-1).numpy()].astype(np.float32)
        return torch.from_numpy(rows).reshape(*index.shape, self.n_features)
