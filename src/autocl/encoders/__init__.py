"""Encoders: images, or ready-made vectors, to features.

Every encoder has `n_features: int` and `forward(x [n, C, H, W]) -> [n, n_features]`.
"""

from dataclasses import dataclass
from typing import Literal

from autocl.encoders.base import Encoder
from autocl.encoders.conv4 import Conv4, Norm
from autocl.errors import InputError

__all__ = ["Conv4", "Encoder", "EncoderConfig", "build_encoder"]

Kind = Literal["conv4"]


@dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """What an encoder is, apart from the shape of its input."""

    kind: Kind = "conv4"
    width: int = 32
    """Filters of every block."""
    norm: Norm = "instance"
    """Instance norm is the paper's: features of an image do not depend on the batch around it."""
    dropout: float = 0.1
    """Rate in [0, 1)."""

    def __post_init__(self) -> None:
        if not 0 <= self.dropout < 1:
            raise InputError(f"encoder dropout is a rate in [0, 1), got {self.dropout}")
        if self.width < 1:
            raise InputError(f"an encoder needs a width of at least 1, got {self.width}")


def build_encoder(config: EncoderConfig, *, channels: int, height: int, width: int) -> Encoder:
    """An encoder with fresh parameters for images of one shape.

    Example:
        >>> build_encoder(EncoderConfig(), channels=3, height=28, width=28).n_features
        32
    """
    if config.kind == "conv4":
        return Conv4(
            channels=channels,
            height=height,
            width=width,
            filters=config.width,
            norm=config.norm,
            dropout=config.dropout,
        )
    raise InputError(f"unknown encoder {config.kind!r}: choose one of 'conv4'")
