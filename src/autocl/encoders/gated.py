"""GatedEncoder: features of one network, scaled by another.

Shape legend: n = images, F = features.
"""

import torch
from torch import Tensor, nn

from autocl.encoders.base import Encoder


class GatedEncoder(Encoder):
    """Features of one network, each scaled between 0 and 1 by another that sees the same image.

    Args:
        encoder: what is scaled.
        modulator: decides how much of each feature passes, and so which weights behind it can change.
    """

    def __init__(self, encoder: Encoder, modulator: Encoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.modulator = modulator
        self.n_features = encoder.n_features
        self.gate = nn.Linear(modulator.n_features, encoder.n_features)

    def forward(self, x: Tensor) -> Tensor:
        """[n, C, H, W] -> [n, F]."""
        gated: Tensor = self.encoder(x) * torch.sigmoid(self.gate(self.modulator(x)))
        return gated
