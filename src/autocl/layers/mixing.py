"""The two-layer networks of an MLP-mixer, over patches and over the channels of a patch.

Shape legend: n = images, P = patches, E = channels of a patch.
"""

import torch
from torch import nn

TOKEN_FACTOR = 2.0
CHANNEL_FACTOR = 0.5


class _Transpose(nn.Module):
    def forward(self, h: torch.Tensor) -> torch.Tensor:
        return h.mT


def token_mixer(n_patches: int, embedding: int, dropout: float) -> nn.Module:
    """The network that sees one channel of all patches: [n, P, E] to [n, P, E]."""
    layers = _two_layers(n_patches, TOKEN_FACTOR, dropout)
    return nn.Sequential(nn.LayerNorm(embedding), _Transpose(), *layers, _Transpose())


def channel_mixer(embedding: int, dropout: float) -> nn.Module:
    """The network that sees all channels of one patch: [n, P, E] to [n, P, E]."""
    return nn.Sequential(nn.LayerNorm(embedding), *_two_layers(embedding, CHANNEL_FACTOR, dropout))


def _two_layers(width: int, factor: float, dropout: float) -> list[nn.Module]:
    inner = max(1, int(width * factor))
    return [
        nn.Linear(width, inner),
        nn.GELU(),
        nn.Dropout(dropout),
        nn.Linear(inner, width),
        nn.Dropout(dropout),
    ]
