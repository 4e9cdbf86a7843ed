"""Linear: a fixed linear map in front of ready-made feature vectors.

It is found from features of many other classes, for instance so that it whitens what the classes of one
network have in common (`python -m tools.train_universal`).

Shape legend: n = vectors, F = their length, D = dimensions of the map.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from autocl.encoders.base import ENCODERS, Encoder, EncoderConfig, ImageShape
from autocl.errors import InputError


class Linear(Encoder):
    """Unit vectors through a map that gradient descent does not change.

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

    def forward(self, x: Tensor) -> Tensor:
        """Unit vectors [n, D] of vectors x [n, F] or [n, F, 1, 1]."""
        return F.normalize(F.normalize(x.flatten(1), dim=1) @ self.map.to(x.dtype), dim=1)


@ENCODERS.register("linear")
def _linear(config: EncoderConfig, shape: ImageShape) -> Linear:
    if shape.height * shape.width > 1:
        raise InputError(f"encoder linear maps vectors, not images of {shape.height}×{shape.width} pixels")
    return Linear(length=shape.channels, dimensions=config.width or shape.channels)
