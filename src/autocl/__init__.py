"""Continual learning that is learned, not hand-crafted."""

__version__ = "0.1.0.dev0"
