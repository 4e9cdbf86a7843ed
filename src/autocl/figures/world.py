"""The world table as a picture: where a learner is ahead of the best constant-size rival, where behind."""

import numpy as np
from matplotlib.axes import Axes

from autocl.evaluation.world.streams import KINDS
from autocl.evaluation.world.summary import Verdict
from autocl.figures.style import DIVERGING, axes

LIMIT = 10.0
"""Points at which colours end; what is further away is as dark."""


def plot_world(verdict: Verdict, ax: Axes | None = None) -> Axes:
    """Rows are image sets, columns kinds of streams: learner minus the best constant-size rival, in points.

    Cells that a set has too few classes or images for stay empty.

    Args:
        verdict: of a learner; see `autocl.evaluation.world.summary.verdict`.
        ax: where to draw; default: a new figure.

    Example:
        >>> v = Verdict(entry="mine", differences={("mnist", "class 5x2, 1 shot"): 1.5}, leads={}, body={},
        ...             worst_body=None)
        >>> [text.get_text() for text in plot_world(v).texts]
        ['+1.5']
    """
    sets = list(dict.fromkeys(name for name, _ in verdict.differences))
    asked = {kind for _, kind in verdict.differences}
    kinds = [kind.name for kind in KINDS if kind.name in asked]
    values = np.full((len(sets), len(kinds)), np.nan)
    for (name, kind), difference in verdict.differences.items():
        values[sets.index(name), kinds.index(kind)] = difference
    ax = axes(ax, size=(3.5 + 0.6 * len(kinds), 2.4 + 0.4 * len(sets)))
    image = ax.imshow(values, cmap=DIVERGING, vmin=-LIMIT, vmax=LIMIT, aspect="auto")
    for row, column in zip(*np.nonzero(~np.isnan(values)), strict=True):
        value = values[row, column]
        colour = "white" if abs(value) > 0.7 * LIMIT else "black"
        ax.text(column, row, f"{value:+.1f}", ha="center", va="center", fontsize="small", color=colour)
    ax.set_xticks(range(len(kinds)), kinds, rotation=45, ha="right", fontsize="small")
    ax.set_yticks(range(len(sets)), sets, fontsize="small")
    ax.set_title(f"{verdict.entry} − best constant-size rival on the same features", loc="left")
    ax.spines[:].set_visible(False)
    assert ax.figure is not None
    ax.figure.colorbar(image, ax=ax, label="points", shrink=0.8, extend="both")
    return ax
