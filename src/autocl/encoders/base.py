"""Encoder: the interface, its configuration, and the registry that finds encoders by name."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn

from autocl.config import Count, DropoutRate, OneOf, check
from autocl.errors import InputError
from autocl.names import Registry

Norm = Literal["instance", "batch", "none"]


class ImageShape(NamedTuple):
    """Shape of one input."""

    channels: int
    height: int
    width: int


class Encoder(nn.Module):
    """A module whose `forward` maps n inputs to features [n, n_features], each input on its own."""

    n_features: int
    """Length of one input's feature vector."""
    trainable: bool = True
    """False: frozen. The optimiser leaves it alone, and files name it (kind and fingerprint) instead of
    holding its weights."""

    def independent(self, x: Tensor) -> bool:
        """Whether it is known that each image of x gets the same features, bit for bit, beside any others."""
        return False

    def fingerprint(self) -> str:
        """Sixteen hex digits that identify its form and weights."""
        return fingerprint_of(self.state_dict(), type(self).__name__)


Builder = Callable[["EncoderConfig", ImageShape], Encoder]
ENCODERS: Registry[Builder] = Registry("encoder", "autocl.encoders")
"""By name, functions of (configuration, shape of an input) that build an encoder."""


@dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """Settings of an encoder, apart from the shape of its input."""

    retired: ClassVar[dict[str, Any]] = {"depth": 4}

    kind: Annotated[str, OneOf(ENCODERS.names)] = "conv4"
    width: Count | None = None
    """conv4: filters of every block; default 32. linear: dimensions of the map; default as many as go in."""
    norm: Norm = "instance"
    """conv4. Instance norm is the paper's: features of an image do not depend on the batch."""
    dropout: DropoutRate = 0.1
    patch: Count = 4
    """patches: side of a patch in pixels."""
    gated: bool = False
    """A second encoder of the same kind scales the features of the first (ANML)."""

    def __post_init__(self) -> None:
        check(self)


def fingerprint_of(weights: Mapping[str, Tensor], description: str) -> str:
    """Sixteen hex digits from weights and a description of what they are of."""
    digest = hashlib.sha256(description.encode())
    for name, value in sorted(weights.items()):
        digest.update(name.encode())
        digest.update(value.detach().cpu().numpy().tobytes())
    return digest.hexdigest()[:16]


def check_halvings(name: str, times: int, *, height: int, width: int) -> None:
    """Refuse images from which halving `times` times would leave nothing."""
    smallest = 2**times
    if min(height, width) < smallest:
        raise InputError(
            f"{name} halves an image {times} times and needs at least {smallest}×{smallest} pixels, "
            f"got {height}×{width}: resize the images or choose another encoder"
        )


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
