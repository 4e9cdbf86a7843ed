"""The self-modifying weights: as images and films, how much they change, their learning rates, their rank."""

from functools import cache
from io import BytesIO

import matplotlib
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from PIL import Image, ImageDraw

from autocl.errors import InputError
from autocl.evaluation.trace import WeightFilm
from autocl.figures.plots import COLOURS, DIVERGING, axes, mark_boundaries, quiet
from autocl.layers.srwm import BLOCKS

STRIP = 10
"""Moments of a strip, evenly spread from a task's first demo to its last."""


def plot_weight_strip(film: WeightFilm, *, task: int = 0, ax: Axes | None = None) -> Axes:
    """The paper's Figures 3-5: the four blocks of a head while the demos of one task are shown.

    It is the first head of the first layer. Each block has its own scale, the same at all moments: the query
    block is small beside the others.

    Args:
        film: from `record_film`.
        task: position in the stream, from 0.
        ax: where to draw.
    """
    if not 0 <= task < len(film.tasks):
        raise InputError(f"task {task} is not in this film: it has tasks 0 to {len(film.tasks) - 1}")
    start, end = (0, *film.boundaries)[task], film.boundaries[task]
    moments = np.unique(np.linspace(start, end, STRIP).round().astype(int))
    D = film.head_size
    blocks = []
    for name in BLOCKS:
        block = film.block(name)[:, 0, 0].numpy()
        blocks.append(block[moments] / (np.abs(block).max() or 1.0))
    # Blocks and moments apart by one empty row and column.
    tiles = np.insert(np.concatenate(blocks, axis=1), [D, 2 * D, 3 * D], np.nan, axis=1)
    strip = np.concatenate(np.pad(tiles, ((0, 0), (0, 0), (0, 1)), constant_values=np.nan), axis=1)
    ax = axes(ax, size=(1.1 * len(moments), 1.1 * strip.shape[0] / (D + 1) + 0.5))
    ax.imshow(strip, cmap=DIVERGING, vmin=-1, vmax=1, interpolation="nearest")
    ax.set_xticks(np.arange(len(moments)) * (D + 1) + D / 2, [str(m) for m in moments], fontsize="small")
    ax.set_yticks([D / 2, 1.5 * D + 1, 2.5 * D + 2, 3 * D + 4.5], BLOCKS)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.set_xlabel(f"demos seen; task {task + 1}: {film.tasks[task]}")
    return ax


def plot_weight_change(film: WeightFilm, *, layer: int = 0, ax: Axes | None = None) -> Axes:
    """Movement of each block at each demo, mean over the heads of a layer."""
    ax = axes(ax, size=(7.0, 2.8))
    change = film.change()[:, layer].mean(1).numpy()
    for i, block in enumerate(BLOCKS):
        ax.plot(range(1, len(change) + 1), change[:, i], color=COLOURS[i], linewidth=1.2, label=block)
    return _over_demos(ax, film, f"step of the weights, layer {layer + 1}")


def plot_learning_rates(film: WeightFilm, *, layer: int = 0, ax: Axes | None = None) -> Axes:
    """σ(β) of each block at each demo: the median of the heads, and the middle half of them."""
    ax = axes(ax, size=(7.0, 2.8))
    rates = film.rates[:, layer].numpy()
    x = range(1, len(rates) + 1)
    for i, block in enumerate(BLOCKS):
        low, middle, high = np.quantile(rates[:, :, i], (0.25, 0.5, 0.75), axis=1)
        ax.fill_between(x, low, high, color=COLOURS[i], alpha=0.12, lw=0)
        ax.plot(x, middle, color=COLOURS[i], linewidth=1.4, label=block)
    ax.set_ylim(0, 1)
    return _over_demos(ax, film, f"σ(β), layer {layer + 1}")


def plot_effective_rank(film: WeightFilm, *, ax: Axes | None = None) -> Axes:
    """Effective rank of the y-block over the stream, one line for each layer; the band spans the heads."""
    ax = axes(ax, size=(7.0, 2.8))
    rank = film.effective_rank().numpy()
    x = range(len(rank))
    for layer in range(rank.shape[1]):
        colour = COLOURS[layer % len(COLOURS)]
        ax.fill_between(x, rank[:, layer].min(1), rank[:, layer].max(1), color=colour, alpha=0.12, lw=0)
        ax.plot(x, rank[:, layer].mean(1), color=colour, linewidth=1.6, label=f"layer {layer + 1}")
    return _over_demos(ax, film, f"effective rank of y (of {film.head_size})")


def _over_demos(ax: Axes, film: WeightFilm, what: str) -> Axes:
    mark_boundaries(ax, film.boundaries, film.tasks)
    ax.set_xlim(0, film.boundaries[-1])
    ax.set_xlabel("demos seen")
    ax.set_ylabel(what, fontsize="small")
    ax.legend(framealpha=0.8, edgecolor="none", fontsize="small", ncols=4, loc="upper right")
    quiet(ax)
    return ax


GAP = 6
CAPTION = 16
FRAME_MS = 90
SHADES = 61
"""Colours of weights: enough to see changes, few enough for a small file."""


def weight_film(film: WeightFilm, *, heads: int = 3, every: int = 2, pixels: int = 8) -> bytes:
    """An animated GIF: rows are heads, columns the blocks y, q, k, β, one frame every few demos.

    It shows what the first layer learned: the differences to its initial weights.

    Args:
        film: from `record_film`.
        heads: the first so many.
        every: demos between frames.
        pixels: a side of one weight on the screen; a file grows with it.
    """
    demos = [*range(0, len(film.labels), every), len(film.labels)]
    blocks = []
    for name in BLOCKS:
        frames = film.block(name)[:, 0, :heads]
        frames = frames - frames[0]
        limit = float(frames.abs().max()) or 1.0
        blocks.append((frames / limit).numpy())
    images = [_frame(film, [block[d] for block in blocks], d, pixels) for d in demos]
    out = BytesIO()
    images[0].save(
        out, format="GIF", save_all=True, append_images=images[1:], loop=0,
        duration=[FRAME_MS] * (len(images) - 1) + [1500], optimize=True,
    )  # fmt: skip
    return out.getvalue()


def _frame(film: WeightFilm, blocks: list[npt.NDArray[np.float32]], demo: int, pixels: int) -> Image.Image:
    heads, side = blocks[0].shape[0], film.head_size * pixels
    width = len(blocks) * (side + GAP) - GAP
    height = CAPTION + heads * (side + GAP)
    canvas = Image.new("RGB", (width, height), "white")
    task = next((i for i, end in enumerate(film.boundaries) if demo <= end), len(film.boundaries) - 1)
    draw = ImageDraw.Draw(canvas)
    draw.text((0, 2), f"demo {demo}/{len(film.labels)}  {film.tasks[task]}", fill="black")
    colours = matplotlib.colormaps[DIVERGING]
    x = 0
    for block in blocks:
        for head in range(heads):
            shades = (colours(block[head] / 2 + 0.5)[..., :3] * 255).astype(np.uint8)
            y = CAPTION + head * (side + GAP)
            size = (block.shape[-1] * pixels, block.shape[-2] * pixels)
            canvas.paste(Image.fromarray(shades).resize(size, Image.Resampling.NEAREST), (x, y))
        x += side + GAP
    return canvas.quantize(palette=_palette(), dither=Image.Dither.NONE)


@cache
def _palette() -> Image.Image:
    """Colours of all frames: one palette, so that frames can be stored as differences."""
    shades = matplotlib.colormaps[DIVERGING](np.linspace(0, 1, SHADES))[:, :3]
    table = [*(int(255 * c) for c in shades.flatten()), 0, 0, 0, 255, 255, 255]
    image = Image.new("P", (1, 1))
    image.putpalette(table)
    return image
