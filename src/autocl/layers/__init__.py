"""Layers over the recurrences, and the stack a learner is made of."""

from torch import nn

from autocl.encoders import Encoder, Patches
from autocl.layers.attention import CausalAttention
from autocl.layers.base import Layer, State
from autocl.layers.delta import DeltaLayer
from autocl.layers.feedforward import FeedForward
from autocl.layers.lstm import LSTM
from autocl.layers.ridge import KernelReadout, NetworkReadout, RidgeReadout
from autocl.layers.srmixer import PatchInput, self_referential_mixer
from autocl.layers.srwm import SRWMLayer
from autocl.learner.config import LearnerConfig

__all__ = [
    "LSTM",
    "CausalAttention",
    "DeltaLayer",
    "FeedForward",
    "KernelReadout",
    "Layer",
    "NetworkReadout",
    "RidgeReadout",
    "SRWMLayer",
    "State",
    "build_body",
    "build_readout",
]


def build_body(config: LearnerConfig, encoder: Encoder) -> tuple[nn.Linear, nn.ModuleList]:
    """The input projection of [features; one-hot label or unknown], and the stack behind it.

    The stack is mixer and feed-forward sublayers in turn, plain LSTM layers, or the self-referential mixer.
    """
    C, rate, labels = config.model_width, config.dropout, config.n_classes + 1
    if isinstance(encoder, Patches):
        patches = PatchInput(
            n_patches=encoder.n_patches, patch_features=encoder.patch_features, n_labels=labels, embedding=C
        )
        return patches, self_referential_mixer(
            n_patches=encoder.n_patches, embedding=C, heads=config.heads, depth=config.depth, dropout=rate
        )
    return nn.Linear(encoder.n_features + labels, C), _stack(config, C, rate)


def build_readout(config: LearnerConfig, features: int) -> RidgeReadout | None:
    """What answers beside the linear head, if anything."""
    shape = {"features": features, "n_classes": config.n_classes, "keys": config.readout_keys}
    match config.readout:
        case "linear":
            return None
        case "ridge":
            return NetworkReadout(**shape, hidden=config.readout_hidden)
        case "kernel":
            return KernelReadout(**shape)


def _stack(config: LearnerConfig, C: int, rate: float) -> nn.ModuleList:
    if config.mixer == "lstm":
        return nn.ModuleList(LSTM(width=C, hidden=C, dropout=rate) for _ in range(config.depth))
    layers = nn.ModuleList()
    for _ in range(config.depth):
        layers.append(_mixer(config))
        layers.append(FeedForward(width=C, inner=config.ff_factor * C, dropout=rate))
    return layers


def _mixer(config: LearnerConfig) -> nn.Module:
    shape = {"width": config.model_width, "heads": config.heads}
    match config.mixer:
        case "srwm":
            return SRWMLayer(
                **shape,
                dropout=config.dropout,
                norm=config.norm,
                softmax_input=config.softmax_input,
                shared_rate=config.shared_rate,
            )
        case "attention":
            return CausalAttention(**shape, dropout=config.dropout)
        case _:
            return DeltaLayer(**shape, dropout=config.dropout, additive=config.mixer == "linear")
