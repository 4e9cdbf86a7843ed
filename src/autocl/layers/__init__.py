"""Layers over the recurrences, and stacks of them found by name. They know no learner."""

from autocl.layers.base import MIXERS, Layer, StackConfig, State

__all__ = ["MIXERS", "Layer", "StackConfig", "State"]
