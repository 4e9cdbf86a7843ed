"""Encoder: what every encoder promises, its configuration, and the registry that finds it by name."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

from torch import Tensor, nn

from autocl.config import Count, DropoutRate, OneOf, check
from autocl.errors import InputError
from autocl.registry import Registry

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

    def fingerprint(self) -> str:
        """Sixteen hex digits that identify its form and weights."""
        return fingerprint_of(self.state_dict(), type(self).__name__)


Builder = Callable[["EncoderConfig", ImageShape], Encoder]
ENCODERS: Registry[Builder] = Registry("encoder", "autocl.encoders")
"""By name, functions of (configuration, shape of an input) that build an encoder."""


@dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """What an encoder is, apart from the shape of its input."""

    kind: Annotated[str, OneOf(ENCODERS.names)] = "conv4"
    width: Count | None = None
    """conv4: filters of every block (default 32); resnet12: filters of the first block (64); mixer: channels
    of a patch (128)."""
    norm: Norm = "instance"
    """conv4, resnet12. Instance norm is the paper's: features of an image do not depend on the batch."""
    dropout: DropoutRate = 0.1
    patch: Count = 4
    """mixer, patches: side of a patch in pixels."""
    depth: Count = 4
    """mixer: pairs of token-mixing and channel-mixing networks."""
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
