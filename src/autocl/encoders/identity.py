"""Encoders without parameters: ready-made features, and pixels cut into patches for layers that learn to see.

Shape legend: n = images, C = input channels, H, W = pixels, P = patches, F = features.
"""

import math

import torch
from torch.nn.functional import pad, unfold

from autocl.encoders.base import ENCODERS, Encoder, EncoderConfig, ImageShape


class Identity(Encoder):
    """Passes feature vectors [n, F] through; images are flattened to pixels.

    Args:
        n_features: F.

    Example:
        >>> Identity(n_features=768)(torch.zeros(5, 768)).shape
        torch.Size([5, 768])
    """

    def __init__(self, *, n_features: int) -> None:
        super().__init__()
        self.n_features = n_features

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Features [n, F] of x [n, F] or [n, C, H, W]."""
        return x.flatten(1)


@ENCODERS.register("identity")
def _identity(config: EncoderConfig, shape: ImageShape) -> Identity:
    return Identity(n_features=math.prod(shape))


class Patches(Encoder):
    """Cuts images into squares, row by row; it has no parameters.

    An image that patches do not tile is padded with zeros on the right and at the bottom.

    Args:
        channels: C, input channels.
        height: H.
        width: W.
        patch: side of a patch in pixels.

    Example:
        >>> encoder = Patches(channels=3, height=32, width=30, patch=8)
        >>> encoder.n_patches, encoder.patch_features, encoder(torch.zeros(2, 3, 32, 30)).shape
        (16, 192, torch.Size([2, 3072]))
    """

    def __init__(self, *, channels: int, height: int, width: int, patch: int) -> None:
        super().__init__()
        self.patch = patch
        self.n_patches = -(-height // patch) * -(-width // patch)
        self.patch_features = channels * patch**2
        self.n_features = self.n_patches * self.patch_features

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Pixels [n, P · C · patch²] of images x [n, C, H, W], one patch after the other."""
        x = pad(x, (0, -x.shape[3] % self.patch, 0, -x.shape[2] % self.patch))
        return unfold(x, self.patch, stride=self.patch).mT.flatten(1)


@ENCODERS.register("patches")
def _patches(config: EncoderConfig, shape: ImageShape) -> Patches:
    return Patches(**shape._asdict(), patch=config.patch)
