"""The one way from pixels to network input: make gray or colour, resize, standardise.

Image sets, folders of one's own and the estimator all take it, so that a learner sees the same in
meta-training, in benchmarks and in use.

Shape legend: n = images, C = channels, H, W = pixels as stored, h, w = pixels wanted.
"""

from typing import Literal

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn.functional import interpolate

from autocl.pictures import Pixels

Standardise = Literal["image", "set"]
"""image: each image by its own mean and deviation. set: by those of the set it belongs to."""

LUMA = (0.299, 0.587, 0.114)
"""Weights of red, green and blue in gray (ITU-R 601, as in Pillow)."""
SMALL = 64
"""Images of at most so many pixels a side are resized all at once, with the same bytes."""
MIN_STD = 1e-3
"""A quarter of one step of 8 bits: an image with less contrast is blank, and its noise is not blown up."""


def resize(images: Pixels, size: tuple[int, int], channels: int) -> Pixels:
    """Images of one size, by Pillow's bilinear filter, which averages when it shrinks (the authors' choice).

    Args:
        images: [n, H, W] or [n, H, W, 3].
        size: (h, w).
        channels: 1 (colour becomes luma, before resizing) or 3 (gray is repeated).

    Returns:
        uint8 [n, channels, h, w].
    """
    out = np.empty((len(images), channels, *size), np.uint8)
    gray = images.ndim == 3
    if images.shape[1:3] == size and gray == (channels == 1):
        out[:] = images[:, None] if gray else images.transpose(0, 3, 1, 2)
        return out
    H, W = images.shape[1:3]
    # Images that become flatter are left to Pillow: from version 13 on it begins with their columns, and
    # rounds differently.
    if max(H, W) <= SMALL and H * size[1] <= W * size[0] and (gray or channels == 3):
        from autocl.ops.pixels import resize_small

        small = resize_small(images, *size)
        out[:] = small[:, None] if gray else small.transpose(0, 3, 1, 2)
        return out
    for row, image in enumerate(images):
        mode = "L" if gray else "RGB"
        # Half the time of Image.fromarray, which has to find out what it was given.
        picture = Image.frombuffer(mode, image.shape[1::-1], np.ascontiguousarray(image), "raw", mode, 0, 1)
        if channels == 1 and not gray:
            picture = picture.convert("L")
        if picture.size != size[::-1]:
            picture = picture.resize(size[::-1], Image.Resampling.BILINEAR)
        pixels = np.asarray(picture)
        out[row] = pixels if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
    return out


def resize_floats(images: Tensor, size: tuple[int, int], channels: int) -> Tensor:
    """The same filter for images whose values are not bytes: float64 [n, 1 or 3, H, W] -> [n, C, h, w].

    C is 1 where `channels` is, else as given.
    """
    if images.shape[1] == 3 and channels == 1:
        images = (images * torch.tensor(LUMA, dtype=images.dtype).view(3, 1, 1)).sum(1, keepdim=True)
    if images.shape[2:] == size:
        return images
    return interpolate(images, size=size, mode="bilinear", antialias=True, align_corners=False)


def unit_range(pixels: Pixels) -> Tensor:
    """Bytes as float32 fractions of 255."""
    return torch.from_numpy(pixels).to(torch.float32).div_(255.0)


def standardise_each(images: Tensor, *, floor: float | Tensor = MIN_STD) -> Tensor:
    """Every image by its own mean and deviation over all its channels and pixels.

    Args:
        images: [n, C, h, w], any float type.
        floor: smallest deviation that is divided by; a number, or [n, 1] for each image its own.

    Returns:
        float32 [n, C, h, w].

    Example:
        >>> x = standardise_each(torch.rand(2, 3, 8, 8))
        >>> bool(x.mean().abs() < 1e-5), bool((x.std(correction=0) - 1).abs() < 1e-3)
        (True, True)
    """
    # Imported here because importing numba takes longer than importing all of autocl.
    from autocl.ops.pixels import standardise

    out = np.empty(images.shape, np.float32)
    n = len(out)
    least = np.full(n, floor) if isinstance(floor, float) else floor.double().numpy().reshape(n)
    standardise(images.reshape(n, -1).contiguous().numpy(), least, out.reshape(n, -1))
    return torch.from_numpy(out)


def standardise_set(images: Tensor, mean: tuple[float, ...], std: tuple[float, ...]) -> Tensor:
    """Every channel of float32 images [n, C, h, w] by the mean and deviation of a set."""
    return (images - torch.tensor(mean).view(-1, 1, 1)).div_(torch.tensor(std).view(-1, 1, 1))
