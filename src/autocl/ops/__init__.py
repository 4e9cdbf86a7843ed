"""Recurrences as functions: (inputs, initial state) -> (outputs, final state). One package each."""
