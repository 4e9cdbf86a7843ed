"""Encoders that no training changes: ready-made features, the same through a linear map, and pixels cut into
patches for layers that learn to see.

Shape legend: n = inputs, C = channels, H, W = pixels, P = patches, F = features, D = dimensions of a map.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from autocl.encoders.base import ENCODERS, Encoder, EncoderConfig, ImageShape
from autocl.errors import InputError
from autocl.ops.linear import product_by_rows


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

    def forward(self, x: Tensor) -> Tensor:
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

    def forward(self, x: Tensor) -> Tensor:
        """Pixels [n, P · C · patch²] of images x [n, C, H, W], one patch after the other."""
        x = F.pad(x, (0, -x.shape[3] % self.patch, 0, -x.shape[2] % self.patch))
        return F.unfold(x, self.patch, stride=self.patch).mT.flatten(1)


@ENCODERS.register("patches")
def _patches(config: EncoderConfig, shape: ImageShape) -> Patches:
    return Patches(**shape._asdict(), patch=config.patch)


class Linear(Encoder):
    """Unit vectors through a linear map that was found from features of many other classes.

    It may, for instance, whiten what the classes of one network have in common (`tools/train_universal.py`).
    The map is kept in half precision: it is by far the largest part of a learner's file.

    Args:
        length: F.
        dimensions: D.

    Example:
        >>> encoder = Linear(length=1280, dimensions=384)
        >>> encoder(torch.randn(5, 1280, 1, 1)).shape
        torch.Size([5, 384])
    """

    map: Tensor

    def __init__(self, *, length: int, dimensions: int) -> None:
        super().__init__()
        self.n_features = dimensions
        self.register_buffer("map", torch.eye(length, dimensions, dtype=torch.float16))
        self._converted: tuple[object, Tensor] | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Unit vectors [n, D] of vectors x [n, F] or [n, F, 1, 1]."""
        unit = F.normalize(x.flatten(1), dim=1)
        return F.normalize(product_by_rows(unit, self._map_as(x.dtype)), dim=1)

    def independent(self, x: Tensor) -> bool:
        """True: see `product_by_rows`."""
        return True

    def _map_as(self, dtype: torch.dtype) -> Tensor:
        """The map in this precision, converted once: for a few rows it would take as long as the product."""
        version = 0 if self.map.is_inference() else self.map._version
        key = (id(self.map), self.map.data_ptr(), version, dtype)
        if self._converted is None or self._converted[0] != key:
            with torch.inference_mode(False):  # so that it can be used in training, too
                self._converted = key, self.map.to(dtype)
        return self._converted[1]


@ENCODERS.register("linear")
def _linear(config: EncoderConfig, shape: ImageShape) -> Linear:
    if shape.height * shape.width > 1:
        raise InputError(f"encoder linear maps vectors, not images of {shape.height}×{shape.width} pixels")
    return Linear(length=shape.channels, dimensions=config.width or shape.channels)
