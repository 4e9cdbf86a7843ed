"""Rival: an encoder and a readout that were meta-trained together, as one module and one file.

Shape legend: n = images, F = features.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from autocl.encoders import Encoder, EncoderConfig, build_encoder
from autocl.errors import InputError
from autocl.files import write_tensors
from autocl.methods.embedding import fingerprint_of
from autocl.methods.nearest_mean import MeanReadout
from autocl.methods.normal_gamma import NormalGamma
from autocl.methods.online_head import OnlineHead
from autocl.methods.readout import Readout
from autocl.weights import load_weights

ReadoutKind = Literal["means", "normal-gamma", "normal-gamma-map", "online"]


@dataclass(frozen=True, kw_only=True)
class RivalConfig:
    """Everything that determines a rival, apart from its weights. The encoder is that of our learners."""

    readout: ReadoutKind
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    gated: bool = False
    """ANML: a second encoder of the same form scales the features of the first."""
    channels: int = 3
    height: int = 32
    width: int = 32
    n_outputs: int = 10
    """online: outputs of the head; the other readouts take any number."""
    hidden: int = 256
    """online: units of the head's hidden layer; 0: none."""
    rate: float = 0.03
    """online: step size."""
    iterations: int = 1
    """online: passes over the demos of a task; meta-training makes one."""
    tuned_on: str = ""
    """online: the held-out images on which rate and iterations were chosen after meta-training; empty: they
    were not."""

    def __post_init__(self) -> None:
        if self.rate <= 0 or self.iterations < 1:
            raise InputError(
                f"rate must be positive and iterations at least 1, got {self.rate} and {self.iterations}"
            )
        if self.readout not in get_args(ReadoutKind):
            raise InputError(f"unknown readout {self.readout!r}: choose one of {get_args(ReadoutKind)}")


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


class Rival(nn.Module):
    """See `autocl.training.rivals` for how its parameters come about.

    Example:
        >>> Rival(RivalConfig(readout="normal-gamma")).encoder.n_features
        128
    """

    def __init__(self, config: RivalConfig) -> None:
        super().__init__()
        self.config = config
        image = {"channels": config.channels, "height": config.height, "width": config.width}
        self.encoder: Encoder = build_encoder(config.encoder, **image)
        if config.gated:
            self.encoder = GatedEncoder(self.encoder, build_encoder(config.encoder, **image))
        self.readout = self._readout()

    def fingerprint(self) -> str:
        """Sixteen hex digits that identify architecture and weights."""
        return fingerprint_of(self, json.dumps(asdict(self.config), sort_keys=True))

    def save(self, path: str | Path, *, meta: Mapping[str, str] | None = None) -> None:
        """Write weights, configuration and, if given, what else is to be known to one safetensors file."""
        tensors = {name: t.detach().cpu().contiguous() for name, t in self.state_dict().items()}
        known = {"kind": "rival", "config": json.dumps(asdict(self.config))}
        write_tensors(path, tensors, {**(meta or {}), **known})

    @staticmethod
    def load(path: str | Path) -> "Rival":
        """Read what `save` wrote, in evaluation mode."""

        def build(values: dict[str, Any]) -> Rival:
            return Rival(RivalConfig(**{**values, "encoder": EncoderConfig(**values["encoder"])}))

        return load_weights(Path(path), kind="rival", build=build)

    def _readout(self) -> Readout:
        features = self.encoder.n_features
        match self.config.readout:
            case "means":
                return MeanReadout()
            case "normal-gamma":
                return NormalGamma(features, bayesian=True)
            case "normal-gamma-map":
                return NormalGamma(features, bayesian=False)
            case "online":
                c = self.config
                head = OnlineHead(features, c.n_outputs, hidden=c.hidden, rate=c.rate)
                head.iterations = c.iterations
                return head
