"""Films: the four blocks of a few heads over a stream, as an animated picture for a page."""

from functools import cache
from io import BytesIO

import matplotlib
import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from autocl.evaluation.weights import BLOCKS, WeightFilm
from autocl.figures.style import DIVERGING

GAP = 6
CAPTION = 16
FRAME_MS = 90
SHADES = 61
"""Colours of weights: enough to see changes, few enough for a small file."""


def weight_film(
    film: WeightFilm, *, layer: int = 0, heads: int = 3, every: int = 2, change: bool = True, pixels: int = 8
) -> bytes:
    """An animated GIF: rows are heads, columns the blocks y, q, k, β, one frame every few demos.

    Args:
        film: from `record_film`.
        layer: of the self-modifying layers.
        heads: the first so many.
        every: demos between frames.
        change: show differences to the initial weights, which are what was learned.
        pixels: a side of one weight on the screen; a file grows with it.
    """
    demos = [*range(0, len(film.labels), every), len(film.labels)]
    blocks = []
    for name in BLOCKS:
        frames = film.block(name)[:, layer, :heads]
        frames = frames - frames[0] if change else frames
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
