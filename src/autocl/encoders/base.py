"""Encoder: what every encoder promises."""

from torch import nn


class Encoder(nn.Module):
    """A module whose `forward` maps n inputs to features [n, n_features], each input on its own."""

    n_features: int
    """Length of one input's feature vector."""
