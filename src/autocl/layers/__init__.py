"""Layers over the recurrences, and the stack a learner is made of."""

from torch import nn

from autocl.layers.attention import CausalAttention
from autocl.layers.base import Layer, State
from autocl.layers.delta import DeltaLayer
from autocl.layers.feedforward import FeedForward
from autocl.layers.lstm import LSTM
from autocl.layers.ridge import RidgeReadout
from autocl.layers.srwm import SRWMLayer
from autocl.learner_config import LearnerConfig

__all__ = [
    "LSTM",
    "CausalAttention",
    "DeltaLayer",
    "FeedForward",
    "Layer",
    "RidgeReadout",
    "SRWMLayer",
    "State",
    "build_layers",
]


def build_layers(config: LearnerConfig) -> nn.ModuleList:
    """The stack of a learner: mixer and feed-forward sublayers in turn, or plain LSTM layers."""
    C, rate = config.model_width, config.dropout
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
