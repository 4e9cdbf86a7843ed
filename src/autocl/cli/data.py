"""The sub-commands of `autocl data`: list, get, check, show."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.table import Table

from autocl.data.catalog import CATALOG, SetInfo, describe
from autocl.data.download import verdict
from autocl.data.loading import load
from autocl.data.locate import find, locate, search_folders
from autocl.data.sheet import contact_sheet
from autocl.errors import DataError

EXAMPLES = """Image sets: what there is, where it is, and whether it is whole.

examples:
  autocl data list
  autocl data get omniglot          find or download it, decode it into the cache
  autocl data check all             verify files and decoded arrays
  autocl data show glyphs           a contact sheet as PNG
"""

Name = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="NAME")]

_VERDICTS = {
    "official": "official file",
    "equivalent": "known other packing of the official content",
    "unknown": "not a copy known to autocl",
}


def list_sets() -> None:
    """Show all image sets: their splits, where they were found, and their licence."""
    table = Table(title=None, box=None, pad_edge=False)
    for column in ("name", "splits", "where", "licence"):
        table.add_column(column, overflow="fold")
    for info in CATALOG.values():
        table.add_row(info.name, ", ".join(info.splits), _whereabouts(info), info.licence)
    console = Console()
    console.print(table)
    console.print("searched: " + ", ".join(str(folder) for folder in search_folders()), soft_wrap=True)


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
    """Make sure a set is on this machine: find or download its files, decode them into the cache.

    Args:
        name: of the set, see `autocl data list`.
    """
    info = describe(name)
    console = Console()
    for split in info.splits:
        images = load(name, split)
        console.print(
            f"{name} {split}: {images.n_classes} classes, {len(images.images)} images"
            + (f" ({images.notes})" if images.notes else ""),
            soft_wrap=True,
        )


def check(name: Name = "all", /) -> None:
    """Compare the files of a set, or of all that are on this machine, with their check sums, and read them.

    Args:
        name: of the set; "all" checks every set that is found.

    Raises:
        DataError: when a file cannot be read or a set asked for by name is absent.
    """
    chosen = list(CATALOG.values()) if name == "all" else [describe(name)]
    console = Console()
    broken = []
    for info in chosen:
        for split in info.splits:
            if info.make is None:
                found = locate(info, split) if name == "all" else find(info, split)
                if found is None:
                    console.print(f"{info.name} {split}: not here")
                    continue
                layout, paths = found
                for file in layout.files_for(split):
                    kind = _VERDICTS[verdict(file, paths[file.name])]
                    console.print(f"{info.name} {split}: {paths[file.name]}: {kind}", soft_wrap=True)
            try:
                images = load(info.name, split)
            except DataError as error:
                broken.append(f"{info.name} {split}: {error}")
                console.print(f"{info.name} {split}: cannot be read", style="red")
                continue
            console.print(
                f"{info.name} {split}: {images.n_classes} classes, {len(images.images)} images, "
                f"sha256 {images.hash}",
                soft_wrap=True,
            )
    if broken:
        raise DataError("; ".join(broken))


def show(
    name: Name, /, *, split: str = "train", out: Path | None = None, classes: int = 20, examples: int = 20
) -> None:
    """Save a contact sheet of a set as PNG: one row per class.

    Args:
        name: of the set, see `autocl data list`.
        split: which part of it.
        out: file to write; default: NAME-SPLIT.png in the current folder.
        classes: rows.
        examples: images per row.
    """
    sheet = contact_sheet(load(name, split), classes=classes, examples=examples)
    path = out if out is not None else Path(f"{name}-{split}.png")
    try:
        sheet.save(path)
    except (OSError, ValueError) as error:
        raise DataError(f"cannot write {path} ({error}): give another file ending in .png") from error
    Console().print(f"saved {path}", soft_wrap=True)


SUBCOMMANDS: dict[str, Callable[..., None]] = {
    "list": list_sets, "get": get, "check": check, "show": show,
}  # fmt: skip


def main(args: Sequence[str]) -> None:
    """Run `autocl data` with these arguments."""
    tyro.extras.subcommand_cli_from_dict(
        SUBCOMMANDS,
        prog="autocl data",
        description=EXAMPLES,
        args=args or ["--help"],
    )
