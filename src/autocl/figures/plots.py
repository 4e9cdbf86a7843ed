"""Figures of accuracies and losses: transfer matrix, accuracy over a stream, world table, loss terms.

The last is the paper's Figure 2: terms of meta-training, apart by image set and position. The style of all
figures is here, too: colours that colour-blind readers can tell apart, axes to draw on.
"""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from autocl.errors import InputError
from autocl.evaluation.emergence import Emergence
from autocl.evaluation.trace import Trace
from autocl.evaluation.world.streams import KINDS
from autocl.evaluation.world.table import Verdict
from autocl.matrix import TransferMatrix

# Okabe & Ito's palette, without its yellow, which is hard to see as a line on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
SEQUENTIAL = "cividis"
"""Colour map for amounts: even in lightness, and the same to all eyes."""
DIVERGING = "PuOr"
"""Colour map for values around zero."""


def axes(ax: Axes | None, *, size: tuple[float, float]) -> Axes:
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
    places = range(matrix.tasks)
    if matrix.tasks <= CROWDED:
        for row, column in zip(*np.nonzero(~np.isnan(values)), strict=True):
            value = values[row, column]
            colour = "black" if value > 55 else "white"
            ax.text(column, row, f"{value:.0f}", ha="center", va="center", color=colour, fontsize="small")
        ax.set_xticks(places, names, rotation=45, ha="right", fontsize="small")
        ax.set_yticks(places, [f"after {name}" for name in names], fontsize="small")
    else:  # numbers and names of many tasks would overlap: colours and positions remain
        numbers = [str(i + 1) for i in places]
        ax.set_xticks(places, numbers, fontsize="x-small")
        ax.set_yticks(places, numbers, fontsize="x-small")
    ax.set_xlabel("task asked")
    ax.set_ylabel("boundary")
    ax.spines[:].set_visible(False)
    assert ax.figure is not None
    ax.figure.colorbar(image, ax=ax, label="accuracy (%)", shrink=0.8)
    return ax


def plot_emergence(emergence: Emergence, ax: Axes | None = None) -> Axes:
    """One line for each term: whole for learning a task, dashed for what is left of it after later ones."""
    ax = axes(ax, size=(6.0, 3.6))
    sets = list(dict.fromkeys(c.set for c in emergence.curves))
    for curve in emergence.curves:
        # The first position is the stronger line. Colours tell sets apart, or positions if there is one set.
        which = sets.index(curve.set) if len(sets) > 1 else curve.position - 1
        ax.plot(
            curve.steps,
            curve.losses,
            color=COLOURS[which % len(COLOURS)],
            linestyle="--" if curve.backward else "-",
            linewidth=1.8 if curve.position == 1 else 1.0,
            alpha=1.0 if curve.position == 1 else 0.7,
            label=curve.label,
        )
    ax.set_ylim(bottom=0)
    ax.set_xlabel("meta-training step")
    ax.set_ylabel("cross-entropy (nats)")
    ax.legend(frameon=False, fontsize="small", ncols=2, loc="lower left", bbox_to_anchor=(0, 1))
    quiet(ax)
    return ax


def plot_accuracy_over_stream(trace: Trace, ax: Axes | None = None) -> Axes:
    """One line for each task, thin before it is learned; the band is one standard deviation over runs."""
    ax = axes(ax, size=(7.0, 3.2))
    values = 100 * trace.accuracy
    mean, std = values.mean(0).numpy(), values.std(0, correction=0).numpy()
    low, high = (mean - std).clip(min=0), (mean + std).clip(max=100)
    demos, learned = trace.demos.numpy(), trace.learned.tolist()
    starts = [0, *learned[:-1]]
    for task, name in enumerate(trace.tasks):
        colour, begin = COLOURS[task % len(COLOURS)], starts[task]
        ax.plot(demos[: begin + 1], mean[: begin + 1, task], color=colour, linewidth=0.7, alpha=0.6)
        ax.plot(demos[begin:], mean[begin:, task], color=colour, linewidth=1.8, label=name)
        ax.fill_between(demos[begin:], low[begin:, task], high[begin:, task], color=colour, alpha=0.15, lw=0)
    mark_boundaries(ax, demos[learned].tolist(), trace.tasks)
    ax.set_xlim(0, int(demos[-1]))
    ax.set_ylim(0, 102)
    ax.set_xlabel("demos seen")
    ax.set_ylabel("accuracy (%)")
    quiet(ax)
    return ax


LIMIT = 10.0
"""Points at which colours end; what is further away is as dark."""


def plot_world(verdict: Verdict, ax: Axes | None = None) -> Axes:
    """Rows are image sets, columns kinds of streams: learner minus the best constant-size rival, in points.

    Cells that a set has too few classes or images for stay empty.

    Args:
        verdict: of a learner; see `autocl.evaluation.world.table.verdict`.
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
