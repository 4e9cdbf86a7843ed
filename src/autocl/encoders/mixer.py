"""Mixer: an encoder of linear maps only, over patches and over the channels of a patch in turn.

Shape legend: n = images, C = input channels, H, W = pixels, P = patches, E = channels of a patch.
"""

import torch
from torch import nn

from autocl.encoders.base import ENCODERS, Encoder, EncoderConfig, ImageShape
from autocl.encoders.patches import Patches
from autocl.layers.mixing import channel_mixer, token_mixer


class Mixer(Encoder):
    """MLP-mixer: patches are embedded, mixed by `depth` pairs of two-layer networks, and averaged.

    An image that patches do not tile is padded with zeros on the right and at the bottom.

    Args:
        channels: C, input channels.
        height: H.
        width: W.
        embedding: E.
        patch: side of a patch in pixels.
        depth: number of (token-mixing, channel-mixing) pairs.
        dropout: rate inside and after each two-layer network.

    Example:
        >>> encoder = Mixer(channels=1, height=30, width=30, embedding=16, patch=8, depth=1)
        >>> encoder.n_patches, encoder(torch.zeros(2, 1, 30, 30)).shape
        (16, torch.Size([2, 16]))
    """

    def __init__(
        self,
        *,
        channels: int,
        height: int,
        width: int,
        embedding: int = 128,
        patch: int = 4,
        depth: int = 4,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.patches = Patches(channels=channels, height=height, width=width, patch=patch)
        self.n_patches = self.patches.n_patches
        self.n_features = embedding
        self.embed = nn.Linear(self.patches.patch_features, embedding)
        self.mixers = nn.ModuleList()
        for _ in range(depth):
            self.mixers.append(token_mixer(self.n_patches, embedding, dropout))
            self.mixers.append(channel_mixer(embedding, dropout))
        self.norm = nn.LayerNorm(embedding)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Features [n, E] of images x [n, C, H, W]."""
        h = self.embed(self.patches(x).unflatten(1, (self.n_patches, -1)))
        for mix in self.mixers:
            h = h + mix(h)
        out: torch.Tensor = self.norm(h).mean(1)
        return out


@ENCODERS.register("mixer")
def _mixer(config: EncoderConfig, shape: ImageShape) -> Mixer:
    return Mixer(
        **shape._asdict(),
        embedding=config.width or 128,
        patch=config.patch,
        depth=config.depth,
        dropout=config.dropout,
    )
