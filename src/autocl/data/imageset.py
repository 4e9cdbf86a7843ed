"""ImageSet: labelled images in memory, and the way they become network input.

Shape legend: n = images, C = channels, H, W = pixels, K = classes.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from autocl.errors import InputError


@dataclass(frozen=True, kw_only=True, eq=False)
class ImageSet:
    """Images of K classes, sorted by class, as uint8.

    Nothing outside `autocl.data` resizes, normalises or augments: `take` is the only way from pixels to
    network input, and the channel statistics it uses travel with the set.

    Example:
        >>> import numpy as np
        >>> images = np.zeros((4, 1, 8, 8), np.uint8)
        >>> s = ImageSet(name="toy", split="train", images=images, starts=np.array([0, 2, 4]),
        ...              classes=("a", "b"), mean=(0.5,), std=(0.5,))
        >>> s.n_classes, s.take(torch.tensor([0, 3]), channels=3).shape
        (2, torch.Size([2, 3, 8, 8]))
    """

    name: str
    split: str
    images: npt.NDArray[np.uint8]
    """[n, C, H, W], possibly memory-mapped; the images of class c are rows starts[c]:starts[c+1]."""
    starts: npt.NDArray[np.int64]
    """[K + 1], increasing from 0 to n."""
    classes: tuple[str, ...]
    """Class names, unique across the splits of a set, so that leakage between splits can be asserted."""
    mean: tuple[float, ...]
    """Per-channel mean of pixels scaled to [0, 1]; length C."""
    std: tuple[float, ...]
    hash: str = ""
    """SHA-256 of content (images, starts, classes): two sets are the same data iff these agree."""
    licence: str = ""
    citation: str = ""

    def __post_init__(self) -> None:
        if self.images.ndim != 4 or self.images.dtype != np.uint8:
            raise InputError(
                f"image set {self.name!r}: images must be uint8 [n, C, H, W], got "
                f"{self.images.dtype} {list(self.images.shape)}"
            )
        starts_ok = (
            len(self.starts) == len(self.classes) + 1
            and self.starts[0] == 0
            and self.starts[-1] == len(self.images)
            and bool(np.all(np.diff(self.starts) >= 0))
        )
        if not starts_ok:
            raise InputError(
                f"image set {self.name!r}: starts must rise from 0 to {len(self.images)} "
                f"with one entry more than the {len(self.classes)} classes"
            )

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.classes)

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """Images per class, [K]."""
        return np.diff(self.starts)

    def take(self, index: torch.Tensor, *, channels: int | None = None) -> torch.Tensor:
        """Normalised float32 images for a tensor of row numbers.

        Args:
            index: int64, any shape [...].
            channels: number of channels wanted; a one-channel set is repeated. Default: as stored.

        Returns:
            float32 [..., channels, H, W].
        """
        rows = torch.from_numpy(self.images[index.reshape(-1).numpy()])
        mean = torch.tensor(self.mean).view(-1, 1, 1)
        std = torch.tensor(self.std).view(-1, 1, 1)
        x = rows.to(torch.float32).div_(255.0).sub_(mean).div_(std)
        have = x.shape[1]
        if channels is not None and channels != have:
            if have != 1:
                raise InputError(
                    f"image set {self.name!r} has {have} channels and cannot give {channels}: "
                    "load it with channels=1 first"
                )
            x = x.expand(-1, channels, -1, -1)
        return x.reshape(*index.shape, *x.shape[1:])
