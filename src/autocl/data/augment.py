"""Augment: every image of a meta-training batch changed a little, each in its own way.

Shape legend: n = images, C = channels, H, W = pixels.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch.nn import functional as F

from autocl.config import Amount, Share, check


@dataclass(frozen=True, kw_only=True)
class Augment:
    """Random changes to images in [0, 1], for `ImageSet.take(augment=…)`; all off by default.

    A range r means: drawn uniformly from −r to r (or 1/(1+r) to 1+r for factors), for each image anew.

    Example:
        >>> x = torch.rand(4, 1, 32, 32)
        >>> augment = Augment(rotate=15, shift=0.1, thickness=0.5)
        >>> augment(x, torch.Generator().manual_seed(0)).shape
        torch.Size([4, 1, 32, 32])
    """

    retired: ClassVar[dict[str, Any]] = {"invert": 0.0}

    rotate: Amount = 0.0
    """Degrees."""
    scale: Amount = 0.0
    """Factor of the size."""
    shear: Amount = 0.0
    """Tangent of the slant."""
    shift: Amount = 0.0
    """Part of the side."""
    thickness: Share = 0.0
    """From 0 to 1: bright strokes grow by up to a pixel on each side, or fade by up to half of one."""
    brightness: Amount = 0.0
    """Added to all channels."""
    contrast: Amount = 0.0
    """Factor of the distance from the image's mean."""
    colour: Amount = 0.0
    """Added to each channel on its own; without effect on gray images."""
    flip: Share = 0.0
    """Probability of a left-right mirror image."""

    def __post_init__(self) -> None:
        check(self)

    def __call__(self, x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Change a batch.

        Args:
            x: float [n, C, H, W] in [0, 1]; not altered.
            generator: decides; the same one in the same state gives the same images.

        Returns:
            float [n, C, H, W] in [0, 1].
        """
        n = len(x)

        def spread(reach: float, *shape: int) -> torch.Tensor:
            return (torch.rand(n, *shape, generator=generator) * 2 - 1) * reach

        def factor(reach: float) -> torch.Tensor:
            return torch.exp(spread(math.log1p(reach)))

        if self.thickness:
            amount = spread(self.thickness).view(n, 1, 1, 1)
            # Halved downwards: a stroke of one pixel would vanish.
            x = _thicken(x, torch.where(amount < 0, amount / 2, amount))
        if self.rotate or self.scale or self.shear or self.shift or self.flip:
            angle = spread(math.radians(self.rotate))
            size = factor(self.scale)
            mirror = torch.where(torch.rand(n, generator=generator) < self.flip, -1.0, 1.0)
            shear, shift = spread(self.shear), spread(2 * self.shift, 2)
            cos, sin = torch.cos(angle) / size, torch.sin(angle) / size
            rows = [
                torch.stack([cos * mirror, cos * shear - sin, shift[:, 0]], dim=1),
                torch.stack([sin * mirror, sin * shear + cos, shift[:, 1]], dim=1),
            ]
            grid = F.affine_grid(torch.stack(rows, dim=1), list(x.shape), align_corners=False)
            # What comes from outside repeats the border.
            x = F.grid_sample(x, grid, mode="bilinear", padding_mode="border", align_corners=False)
        if self.brightness or self.contrast or self.colour:
            mean = x.mean(dim=(1, 2, 3), keepdim=True)
            x = (x - mean) * factor(self.contrast).view(n, 1, 1, 1) + mean
            x = x + spread(self.brightness, 1, 1, 1)
            if x.shape[1] > 1:
                x = x + spread(self.colour, x.shape[1], 1, 1)
            x = x.clamp(0, 1)
        return x


def _thicken(x: torch.Tensor, amount: torch.Tensor) -> torch.Tensor:
    """Blend x [n, C, H, W] towards the brightest of each pixel and its neighbours, or the darkest.

    The amount [n, 1, 1, 1] lies in [−1, 1]; below 0 it is the darkest.
    """
    grow = (amount > 0).flatten()
    signed = torch.where(grow.view(-1, 1, 1, 1), x, -x)
    around = F.max_pool2d(signed, 3, stride=1, padding=1)
    return torch.lerp(signed, around, amount.abs()) * torch.where(grow, 1.0, -1.0).view(-1, 1, 1, 1)
