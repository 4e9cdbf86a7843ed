"""ByClass: rows sorted by class, whatever a row is.

Shape legend: n = rows, K = classes.
"""

import numpy as np
import numpy.typing as npt

from autocl.errors import InputError


class ByClass:
    """What image sets and feature sets have in common. The rows of class c are starts[c]:starts[c+1]."""

    name: str
    starts: npt.NDArray[np.int64]
    """[K + 1], rising from 0 to n."""
    classes: tuple[str, ...]

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

    def check_starts(self, n: int) -> None:
        """Refuse boundaries that do not divide n rows among the classes."""
        rising = len(self.starts) == self.n_classes + 1 and bool(np.all(np.diff(self.starts) >= 0))
        if not (rising and self.starts[0] == 0 and self.starts[-1] == n):
            raise InputError(
                f"set {self.name!r}: starts must rise from 0 to {n} with one entry more than the "
                f"{self.n_classes} classes"
            )
