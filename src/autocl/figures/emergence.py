"""The paper's Figure 2: loss terms of meta-training, apart by image set and position."""

from matplotlib.axes import Axes

from autocl.evaluation.emergence import Emergence
from autocl.figures.style import COLOURS, axes, quiet


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
