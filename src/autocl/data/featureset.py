"""FeatureSet: labelled feature vectors, what an ImageSet becomes behind a frozen backbone.

Shape legend: n = images, F = features, K = classes.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from autocl.data.by_class import ByClass
from autocl.errors import InputError

Floats = npt.NDArray[np.float16] | npt.NDArray[np.float32]


@dataclass(frozen=True, kw_only=True, eq=False)
class FeatureSet(ByClass):
    """Vectors of K classes, sorted by class, possibly memory-mapped.

    Example:
        >>> features = np.arange(8, dtype=np.float16).reshape(4, 2)
        >>> s = FeatureSet(name="toy", split="train", features=features, starts=np.array([0, 2, 4]),
        ...                classes=("a", "b"))
        >>> s.n_classes, s.take(torch.tensor([[0], [3]])).tolist()
        (2, [[[0.0, 1.0]], [[6.0, 7.0]]])
    """

    name: str
    split: str
    features: Floats
    """[n, F]; those of class c are rows starts[c]:starts[c+1]."""
    starts: npt.NDArray[np.int64]
    """[K + 1], rising from 0 to n."""
    classes: tuple[str, ...]
    hash: str = ""
    """SHA-256 that names images, backbone and precision: the same hash, the same vectors."""
    backbone: str = ""
    """Name of the backbone; empty: ready-made vectors."""
    order: npt.NDArray[np.int64] | None = None
    """[n]: position of each row in the source it was read from. None: unknown."""
    notes: str = ""
    """What a reader of results must know about this copy of the data."""

    def __post_init__(self) -> None:
        if self.features.ndim != 2 or self.features.dtype not in (np.float16, np.float32):
            raise InputError(
                f"feature set {self.name!r}: features must be float16 or float32 [n, F], got "
                f"{self.features.dtype} {list(self.features.shape)}"
            )
        self.check_starts(len(self.features))

    @property
    def n_features(self) -> int:
        """Length of a vector, F."""
        return int(self.features.shape[1])

    def take(self, index: torch.Tensor) -> torch.Tensor:
        """Vectors float32 [..., F] for a tensor of row numbers, int64 of any shape [...]."""
        rows = self.features[index.reshape(-1).numpy()].astype(np.float32)
        return torch.from_numpy(rows).reshape(*index.shape, self.n_features)
