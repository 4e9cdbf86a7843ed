"""The transfer matrix as a heat map with numbers."""

import math
from collections.abc import Sequence

from matplotlib.axes import Axes

from autocl.errors import InputError
from autocl.figures.style import SEQUENTIAL, axes
from autocl.matrix import TransferMatrix

CROWDED = 10
"""Tasks above which entries are too small for text."""


def plot_transfer_matrix(
    matrix: TransferMatrix, tasks: Sequence[str] | None = None, ax: Axes | None = None
) -> Axes:
    """Mean over runs, in percent: rows are boundaries, columns tasks; what was not asked stays empty.

    Args:
        matrix: accuracies in [0, 1].
        tasks: names, in the order of the stream.
        ax: where to draw; default: a new figure.

    Example:
        >>> import torch
        >>> ax = plot_transfer_matrix(TransferMatrix(torch.tensor([[0.9, 0.2], [0.7, 0.8]])), ["a", "b"])
        >>> ax.get_xticklabels()[0].get_text()
        'a'
    """
    names = [str(i + 1) for i in range(matrix.tasks)] if tasks is None else list(tasks)
    if len(names) != matrix.tasks:
        raise InputError(f"got {len(names)} names for a matrix of {matrix.tasks} tasks")
    side = 1.6 + 0.55 * matrix.tasks
    ax = axes(ax, size=(side + 0.8, side))
    values = 100 * matrix.mean().values.cpu().numpy()
    image = ax.imshow(values, cmap=SEQUENTIAL, vmin=0, vmax=100)
    # Numbers and names of many tasks would overlap: colours and positions remain.
    if matrix.tasks <= CROWDED:
        for row, line in enumerate(values):
            for column, value in enumerate(line):
                if not math.isnan(value):
                    colour = "black" if value > 55 else "white"
                    ax.text(
                        column, row, f"{value:.0f}", ha="center", va="center", color=colour, fontsize="small"
                    )
    places = range(matrix.tasks)
    if matrix.tasks <= CROWDED:
        ax.set_xticks(places, names, rotation=45, ha="right", fontsize="small")
        ax.set_yticks(places, [f"after {name}" for name in names], fontsize="small")
    else:
        numbers = [str(i + 1) for i in places]
        ax.set_xticks(places, numbers, fontsize="x-small")
        ax.set_yticks(places, numbers, fontsize="x-small")
    ax.set_xlabel("task asked")
    ax.set_ylabel("boundary")
    ax.spines[:].set_visible(False)
    assert ax.figure is not None
    ax.figure.colorbar(image, ax=ax, label="accuracy (%)", shrink=0.8)
    return ax
