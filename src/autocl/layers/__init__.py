"""Layers over the recurrences, and stacks of them found by name. They know no learner."""
