"""Encoders: images, or ready-made vectors, to features. Each file registers its own under a name."""

from autocl.encoders.base import ENCODERS, Encoder, EncoderConfig, GatedEncoder, ImageShape
from autocl.encoders.conv4 import Conv4
from autocl.encoders.fixed import Identity, Patches

__all__ = ["ENCODERS", "Conv4", "Encoder", "EncoderConfig", "Identity", "Patches", "build_encoder"]


def build_encoder(config: EncoderConfig, *, channels: int, height: int, width: int) -> Encoder:
    """An encoder with fresh parameters for inputs of one shape.

    Feature vectors of length F for `kind="identity"` have channels F, height 1 and width 1.

    Example:
        >>> build_encoder(EncoderConfig(), channels=3, height=28, width=28).n_features
        32
    """
    build, shape = ENCODERS.get(config.kind), ImageShape(channels, height, width)
    encoder = build(config, shape)
    if config.gated:
        return GatedEncoder(encoder, build(config, shape))
    return encoder if encoder.trainable else encoder.requires_grad_(False)
