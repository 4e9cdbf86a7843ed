"""Figures show the numbers they were given."""

from collections.abc import Iterator
from io import BytesIO

import matplotlib as mpl
import numpy as np
import pytest
import torch
from matplotlib import pyplot as plt
from PIL import Image

from autocl.errors import InputError
from autocl.evaluation.emergence import Curve, Emergence
from autocl.evaluation.trace import Trace, WeightFilm
from autocl.figures import (
    plot_accuracy_over_stream,
    plot_effective_rank,
    plot_emergence,
    plot_learning_rates,
    plot_transfer_matrix,
    plot_weight_change,
    plot_weight_strip,
    weight_film,
)
from autocl.matrix import TransferMatrix

mpl.use("Agg")


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    plt.close("all")


def film() -> WeightFilm:
    g = torch.Generator().manual_seed(0)
    return WeightFilm(
        weights=torch.randn(7, 2, 3, 28, 8, generator=g),
        rates=torch.rand(6, 2, 3, 4, generator=g),
        labels=torch.arange(6) % 2,
        boundaries=(2, 6),
        tasks=("a", "b"),
    )


def test_heat_map_has_numbers_names_and_gaps() -> None:
    values = torch.tensor([[[0.9, torch.nan], [0.71, 0.8]], [[0.9, torch.nan], [0.73, 0.8]]])
    ax = plot_transfer_matrix(TransferMatrix(values), ["zeros", "ones"])
    assert [t.get_text() for t in ax.texts] == ["90", "72", "80"]
    assert [t.get_text() for t in ax.get_xticklabels()] == ["zeros", "ones"]
    assert np.isnan(np.ma.filled(ax.images[0].get_array(), np.nan)[0, 1])
    crowded = plot_transfer_matrix(TransferMatrix(torch.full((20, 20), 0.5)))
    assert not crowded.texts
    with pytest.raises(InputError, match="3 names for a matrix of 2"):
        plot_transfer_matrix(TransferMatrix(values), ["a", "b", "c"])


def test_given_axes_are_drawn_on_and_returned() -> None:
    _, ax = plt.subplots()
    assert plot_transfer_matrix(TransferMatrix(torch.eye(2)), ax=ax) is ax
    assert plot_weight_strip(film(), ax=ax) is ax


def test_accuracy_over_the_stream_starts_each_bold_line_where_its_task_does() -> None:
    trace = Trace(
        accuracy=torch.rand(3, 5, 2, dtype=torch.float64), demos=torch.tensor([0, 2, 4, 6, 8]),
        learned=torch.tensor([2, 4]), few=torch.tensor([1, 3]), tasks=("a", "b"),
    )  # fmt: skip
    ax = plot_accuracy_over_stream(trace)
    bold = [line for line in ax.lines if line.get_label() in ("a", "b")]
    assert [line.get_xdata()[0] for line in bold] == [0, 4]
    assert np.allclose(bold[1].get_ydata(), 100 * trace.accuracy.mean(0)[2:, 1])


def test_emergence_draws_every_term_and_dashes_the_backward_ones() -> None:
    steps, losses = (0.0, 1.0, 2.0), (1.6, 1.0, 0.5)
    curves = tuple(
        Curve(set=s, position=p, backward=b, steps=steps, losses=losses)
        for s in ("omniglot", "mini_imagenet")
        for p, b in ((1, False), (2, False), (1, True))
    )
    ax = plot_emergence(Emergence(name="run", acl=False, curves=curves))
    assert len(ax.lines) == 6
    assert sum(line.get_linestyle() == "--" for line in ax.lines) == 2
    assert len({line.get_color() for line in ax.lines}) == 2


def test_weights_rates_change_and_rank() -> None:
    f = film()
    middle = plot_learning_rates(f)
    assert np.allclose(middle.lines[3].get_ydata(), np.median(f.rates[:, 0, :, 3], axis=1))
    steps = plot_weight_change(f, layer=1)
    assert np.allclose(steps.lines[1].get_ydata(), f.change()[:, 1, :, 1].mean(1))
    rank = plot_effective_rank(f)
    assert np.allclose(rank.lines[1].get_ydata(), f.effective_rank()[:, 1].mean(1))
    strip = plot_weight_strip(f, task=1)
    shown = np.ma.filled(strip.images[0].get_array(), np.nan)
    assert shown.shape == (28 + 3, 5 * 9)
    for name, rows, columns, moment in (
        ("y", slice(8), slice(9, 17), 3),
        ("β", slice(27, None), slice(18, 26), 4),
    ):
        block = f.block(name)[:, 0, 0]
        assert np.allclose(shown[rows, columns], block[moment] / block.abs().max()), "demos 2 to 6"
    assert [t.get_text() for t in strip.get_xticklabels()] == ["2", "3", "4", "5", "6"]
    with pytest.raises(InputError, match="task 2"):
        plot_weight_strip(f, task=2)


def test_a_film_has_a_frame_every_few_demos_and_shows_the_last() -> None:
    made = Image.open(BytesIO(weight_film(film(), heads=2, every=4)))
    assert made.format == "GIF"
    assert made.n_frames == 3  # type: ignore[attr-defined]
    assert made.size == (4 * 64 + 3 * 6, 16 + 2 * 70)
