"""Contact sheets: a look at an image set on one page."""

import numpy as np
from PIL import Image

from autocl.data.imageset import ImageSet
from autocl.errors import InputError


def contact_sheet(images: ImageSet, *, classes: int = 20, examples: int = 20, zoom: int = 2) -> Image.Image:
    """One row per class, its first images side by side.

    Args:
        images: the set.
        classes: rows at most; taken at even steps through the classes.
        examples: images per row at most.
        zoom: pixels on the sheet per pixel of an image.

    Example:
        >>> from autocl.data import load
        >>> contact_sheet(load("glyphs", classes=5, examples=3)).size
        (196, 328)
    """
    if classes < 1 or examples < 1 or zoom < 1:
        raise InputError(f"a sheet of {classes} classes × {examples} examples × zoom {zoom} would be empty")
    channels, height, width = images.images.shape[1:]
    rows = np.unique(np.linspace(0, images.n_classes - 1, min(classes, images.n_classes)).astype(int))
    columns = min(examples, int(images.counts[rows].max()))
    # One gray pixel between the images.
    page = np.full((channels, len(rows) * (height + 1), columns * (width + 1)), 128, np.uint8)
    for r, number in enumerate(rows):
        first = int(images.starts[number])
        for c, image in enumerate(images.images[first : first + min(columns, int(images.counts[number]))]):
            top, left = r * (height + 1), c * (width + 1)
            page[:, top : top + height, left : left + width] = image
    page = page[:, :-1, :-1]
    sheet = Image.fromarray(page[0] if channels == 1 else np.ascontiguousarray(page.transpose(1, 2, 0)))
    return sheet.resize((sheet.width * zoom, sheet.height * zoom), Image.Resampling.NEAREST)
