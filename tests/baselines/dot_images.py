"""Images that a small network learns in a moment: noisy copies of one random pattern for each class."""

from collections.abc import Callable

import numpy as np

from autocl.data.imageset import ImageSet
from autocl.data.stream import Stream

Streams = Callable[..., list[Stream]]
"""Type of the fixture `streams`."""


def dots(split: str, *, classes: int = 6, each: int = 24, seed: int = 0, size: int = 8) -> ImageSet:
    rng = np.random.default_rng(seed)
    centre = np.random.default_rng(99).integers(0, 256, (classes, 1, 1, size, size))
    noise = rng.normal(0, 20, (classes, each, 1, size, size))
    images = np.clip(centre + noise, 0, 255).astype(np.uint8).reshape(-1, 1, size, size)
    return ImageSet(
        name="dots",
        split=split,
        images=images,
        starts=np.arange(classes + 1) * each,
        classes=tuple(f"c{c}" for c in range(classes)),
        mean=(0.5,),
        std=(0.29,),
        hash=split,
        order=np.arange(classes * each) % each * classes + np.arange(classes * each) // each,
    )
