"""Recurrences as functions: (inputs, initial state) -> (outputs, final state)."""

from autocl.ops.srwm import srwm

__all__ = ["srwm"]
