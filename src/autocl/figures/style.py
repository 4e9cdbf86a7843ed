"""Style of all figures: colours that colour-blind readers can tell apart, axes to draw on."""

from collections.abc import Sequence

from matplotlib.axes import Axes

# Okabe & Ito's palette, without its yellow, which is hard to see as a line on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
SEQUENTIAL = "cividis"
"""Colour map for amounts: even in lightness, and the same to all eyes."""
DIVERGING = "PuOr"
"""Colour map for values around zero."""


def axes(ax: Axes | None, *, size: tuple[float, float] = (5.0, 3.5)) -> Axes:
    """The axes to draw on: those given, or of a new figure."""
    if ax is not None:
        return ax
    from matplotlib import pyplot as plt

    return plt.subplots(figsize=size, layout="constrained")[1]


def mark_boundaries(ax: Axes, ends: Sequence[int], names: Sequence[str]) -> None:
    """Thin lines at the ends of tasks, and each task's name above its stretch."""
    start = 0
    for end, name in zip(ends, names, strict=True):
        if end != ends[-1]:
            ax.axvline(end, color="0.6", linewidth=0.8, linestyle=":")
        ax.annotate(
            name, ((start + end) / 2, 1.01), xycoords=("data", "axes fraction"), ha="center", va="bottom",
            fontsize="small", color="0.3",
        )  # fmt: skip
        start = end


def quiet(ax: Axes) -> None:
    """No frame where nothing is read off."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color="0.9", linewidth=0.8)
    ax.set_axisbelow(True)
