"""Drawn glyphs: an endless family of invented characters, made by calculation."""

from autocl.data.glyphs.ink import draw_glyphs

__all__ = ["draw_glyphs"]
