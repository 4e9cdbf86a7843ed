"""Figures: functions that draw on given axes, or on a new figure, and return the axes."""

from autocl.figures.plots import plot_accuracy_over_stream, plot_emergence, plot_transfer_matrix, plot_world
from autocl.figures.weights import (
    plot_effective_rank,
    plot_learning_rates,
    plot_weight_change,
    plot_weight_strip,
    weight_film,
)

__all__ = [
    "plot_accuracy_over_stream",
    "plot_effective_rank",
    "plot_emergence",
    "plot_learning_rates",
    "plot_transfer_matrix",
    "plot_weight_change",
    "plot_weight_strip",
    "plot_world",
    "weight_film",
]
