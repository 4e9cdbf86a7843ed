"""Identity: features that somebody else computed."""

import math

import torch

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
