"""Preprocess: images to the pixels a network was trained on."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PIL import Image


@dataclass(frozen=True, kw_only=True)
class Preprocess:
    """Squeeze into a square (nothing is cut off), then (pixel − mean) / std with pixels from 0 to 255.

    Networks are trained on crops squeezed by up to a third, so that a usual photograph suffers little.
    """

    size: int
    mean: tuple[float, float, float]
    std: tuple[float, float, float]

    def __str__(self) -> str:
        channels = f"minus {list(self.mean)}, divided by {list(self.std)}"
        return f"RGB squeezed to {self.size}×{self.size} (bicubic), {channels}"

    def pixels(self, images: Sequence[Image.Image]) -> npt.NDArray[np.uint8]:
        """RGB images of any size to [n, S, S, 3]."""
        side = (self.size, self.size)
        out = np.empty((len(images), *side, 3), np.uint8)
        for i, image in enumerate(images):
            if image.size != side:
                # The gap makes huge pictures cheap: they are first shrunk by a whole factor.
                image = image.resize(side, Image.Resampling.BICUBIC, reducing_gap=2.0)
            out[i] = np.asarray(image)
        return out

    def normalised(self, images: Sequence[Image.Image]) -> npt.NDArray[np.float32]:
        """RGB images of any size to [n, 3, S, S], normalised."""
        x = self.pixels(images).transpose(0, 3, 1, 2).astype(np.float32, order="C")
        x -= np.array(self.mean, np.float32)[:, None, None]
        x /= np.array(self.std, np.float32)[:, None, None]
        return x
