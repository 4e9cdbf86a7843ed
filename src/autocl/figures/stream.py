"""Accuracy over the stream: every task from its first demo to the end."""

from matplotlib.axes import Axes

from autocl.evaluation.trace import Trace
from autocl.figures.style import COLOURS, axes, mark_boundaries, quiet


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
