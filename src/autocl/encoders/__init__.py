"""Encoders: images, or ready-made vectors, to features.

Every encoder has `n_features: int` and `forward(x [n, C, H, W]) -> [n, n_features]`.
"""

from dataclasses import dataclass
from typing import Literal

from autocl.encoders.base import Encoder, Norm
from autocl.encoders.conv4 import Conv4
from autocl.encoders.identity import Identity
from autocl.encoders.mixer import Mixer
from autocl.encoders.patches import Patches
from autocl.encoders.resnet12 import ResNet12
from autocl.errors import InputError

__all__ = ["Conv4", "Encoder", "EncoderConfig", "Identity", "Mixer", "Patches", "ResNet12", "build_encoder"]

Kind = Literal["conv4", "resnet12", "mixer", "patches", "identity"]
DEFAULT_WIDTH: dict[Kind, int] = {"conv4": 32, "resnet12": 64, "mixer": 128, "patches": 1, "identity": 1}


@dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """What an encoder is, apart from the shape of its input."""

    kind: Kind = "conv4"
    width: int | None = None
    """conv4: filters of every block (default 32); resnet12: filters of the first block (64); mixer: channels
    of a patch (128)."""
    norm: Norm = "instance"
    """conv4, resnet12. Instance norm is the paper's: features of an image do not depend on the batch."""
    dropout: float = 0.1
    """Rate in [0, 1)."""
    patch: int = 4
    """mixer, patches: side of a patch in pixels."""
    depth: int = 4
    """mixer: pairs of token-mixing and channel-mixing networks."""

    def __post_init__(self) -> None:
        if self.kind not in DEFAULT_WIDTH:
            raise InputError(f"unknown encoder {self.kind!r}: choose one of {', '.join(DEFAULT_WIDTH)}")
        if self.norm not in ("instance", "batch", "none"):
            raise InputError(f"unknown norm {self.norm!r} of the encoder: choose instance, batch or none")
        if not 0 <= self.dropout < 1:
            raise InputError(f"dropout of the encoder is a rate in [0, 1), got {self.dropout}")
        for name in ("width", "patch", "depth"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"{name} of the encoder must be at least 1, got {value}")


def build_encoder(config: EncoderConfig, *, channels: int, height: int, width: int) -> Encoder:
    """An encoder with fresh parameters for inputs of one shape.

    Feature vectors of length F for `kind="identity"` have channels F, height 1 and width 1.

    Example:
        >>> build_encoder(EncoderConfig(), channels=3, height=28, width=28).n_features
        32
    """
    size = DEFAULT_WIDTH[config.kind] if config.width is None else config.width
    image = {"channels": channels, "height": height, "width": width}
    match config.kind:
        case "conv4":
            return Conv4(**image, filters=size, norm=config.norm, dropout=config.dropout)
        case "resnet12":
            return ResNet12(**image, filters=size, norm=config.norm, dropout=config.dropout)
        case "mixer":
            return Mixer(
                **image, embedding=size, patch=config.patch, depth=config.depth, dropout=config.dropout
            )
        case "patches":
            return Patches(**image, patch=config.patch)
        case "identity":
            return Identity(n_features=channels * height * width)
