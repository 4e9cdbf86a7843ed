"""Recurrences as functions: (inputs, initial state) -> (outputs, final state)."""

from autocl.ops.delta import delta
from autocl.ops.srwm import srwm

__all__ = ["delta", "srwm"]
