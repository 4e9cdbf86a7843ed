"""Layers over the recurrences, and the stacks that learners are made of, found by name. They know no learner."""

from autocl.layers.base import MIXERS, Layer, StackConfig, State

__all__ = ["MIXERS", "Layer", "StackConfig", "State"]
