"""`autocl data`: list, get, check and show image sets."""

from pathlib import Path
from typing import Annotated

import numpy as np
from PIL import Image
from rich.console import Console
from tyro.conf import Positional, arg, subcommand

from autocl.cli.terminal import Left, say, tabulate
from autocl.data.catalog import CATALOG, SetInfo, describe
from autocl.data.imageset import ImageSet
from autocl.data.loading import load
from autocl.data.locate import find, locate, search_folders, verdict
from autocl.errors import DataError, InputError

Name = Annotated[Positional[str], arg(metavar="NAME")]

_VERDICTS = {
    "official": "official file",
    "equivalent": "known other packing of the official content",
    "unknown": "not a copy known to autocl",
}


def list_sets() -> None:
    """Show all image sets: their splits, where they were found, and their licence."""
    rows = [(i.name, ", ".join(i.splits), _whereabouts(i), i.licence) for i in CATALOG.values()]
    Console().print(tabulate(("name", "splits", "where", "licence"), rows))
    say("searched: " + ", ".join(str(folder) for folder in search_folders()))


def _whereabouts(info: SetInfo) -> str:
    """One phrase: found where and in which form, or how to get it."""
    if info.make is not None:
        return "needs no files"
    places = []
    for split in info.splits:
        found = locate(info, split)
        if found is None:
            continue
        layout, paths = found
        place = f"{next(iter(paths.values())).parent} ({layout.title})"
        if place not in places:
            places.append(place)
    if places:
        return "; ".join(places)
    can = any(all(file.urls for file in layout.files) for layout in info.layouts)
    return f"not here: autocl data get {info.name}" if can else "not here, to be put in place by hand"


def get(name: Name, /) -> None:
    """Find a set on this machine or download it, and decode it into the cache.

    Args:
        name: of the set, see `autocl data list`.
    """
    info = describe(name)
    for split in info.splits:
        images = load(info.name, split)
        notes = f" ({images.notes})" if images.notes else ""
        say(f"{info.name} {split}: {images.n_classes} classes, {len(images.images)} images{notes}")


def check(name: Name = "all", /) -> None:
    """Compare the files of a set with their check sums, and read them.

    Args:
        name: of the set; "all" checks every set that is found.

    Raises:
        DataError: when a file cannot be read or a set asked for by name is absent.
    """
    chosen = list(CATALOG.values()) if name == "all" else [describe(name)]
    broken = []
    for info in chosen:
        for split in info.splits:
            if info.make is None:
                found = locate(info, split) if name == "all" else find(info, split)
                if found is None:
                    say(f"{info.name} {split}: not here")
                    continue
                layout, paths = found
                for file in layout.files_for(split):
                    kind = _VERDICTS[verdict(file, paths[file.name])]
                    say(f"{info.name} {split}: {paths[file.name]}: {kind}")
            try:
                images = load(info.name, split)
            except DataError as error:
                broken.append(f"{info.name} {split}: {error}")
                say(f"{info.name} {split}: cannot be read", style="red")
                continue
            count = f"{images.n_classes} classes, {len(images.images)} images"
            say(f"{info.name} {split}: {count}, sha256 {images.hash}")
    if broken:
        raise DataError("; ".join(broken))


def show(
    name: Name, /, *, split: str = "train", out: Left[Path] = None, classes: int = 20, examples: int = 20
) -> None:
    """Save a contact sheet of a set as PNG: one row per class.

    Args:
        name: of the set, see `autocl data list`.
        split: which part of it.
        out: file to write; default: NAME-SPLIT.png in the current folder.
        classes: rows.
        examples: images per row.
    """
    images = load(name, split)
    sheet = contact_sheet(images, classes=classes, examples=examples)
    path = out if out is not None else Path(f"{images.name}-{split}.png")
    try:
        sheet.save(path)
    except (OSError, ValueError) as error:
        raise DataError(f"cannot write {path} ({error}): give another file ending in .png") from error
    say(f"saved {path}")


def data(
    action: Annotated[None, subcommand("list", constructor=list_sets)]
    | Annotated[None, subcommand("get", constructor=get)]
    | Annotated[None, subcommand("check", constructor=check)]
    | Annotated[None, subcommand("show", constructor=show)],
) -> None:
    """Image sets: what there is, where it is, and whether it is whole.

    Examples:
        autocl data list
        autocl data get omniglot          find or download it, decode it into the cache
        autocl data check all             verify files and decoded arrays
        autocl data show glyphs           a contact sheet as PNG
    """


def contact_sheet(images: ImageSet, *, classes: int = 20, examples: int = 20) -> Image.Image:
    """One row per class, its first images side by side.

    Args:
        images: the set.
        classes: rows at most; taken at even steps through the classes.
        examples: images per row at most.

    Example:
        >>> from autocl.data import load
        >>> contact_sheet(load("glyphs", classes=5, examples=3)).size
        (196, 328)
    """
    if classes < 1 or examples < 1:
        raise InputError(f"a sheet of {classes} classes × {examples} examples would be empty")
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
    return sheet.resize((2 * sheet.width, 2 * sheet.height), Image.Resampling.NEAREST)
