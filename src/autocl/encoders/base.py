"""Encoder: what every encoder promises, and what several of them ask of an image."""

from typing import Literal

from torch import nn

from autocl.errors import InputError

Norm = Literal["instance", "batch", "none"]


class Encoder(nn.Module):
    """A module whose `forward` maps n inputs to features [n, n_features], each input on its own."""

    n_features: int
    """Length of one input's feature vector."""


def check_halvings(name: str, times: int, *, height: int, width: int) -> None:
    """Refuse images from which halving `times` times would leave nothing."""
    smallest = 2**times
    if min(height, width) < smallest:
        raise InputError(
            f"{name} halves an image {times} times and needs at least {smallest}×{smallest} pixels, "
            f"got {height}×{width}: resize the images or choose another encoder"
        )
