"""Where the files of a set come from: a search through folders, nearest to the user's word first."""

import os
from collections.abc import Iterator
from pathlib import Path

from autocl.data.cache import cache_folder
from autocl.data.description import Form, SetInfo
from autocl.errors import DataError

Found = tuple[Form, dict[str, Path]]
"""A form of a set, and the path of each of its files."""


def _shared_folders() -> Iterator[Path]:
    """`shared/data` beside the checkout: found from the package's own place and from where one works."""
    seen = set()
    for start in (Path(__file__).resolve(), Path.cwd().resolve()):
        for parent in start.parents if start.is_file() else (start, *start.parents):
            folder = parent / "shared" / "data"
            if folder not in seen and folder.is_dir():
                seen.add(folder)
                yield folder


def search_folders(root: str | Path | None = None) -> list[Path]:
    """The folders that are searched, in order.

    Args:
        root: when given, the only folder searched.
    """
    if root is not None:
        folder = Path(root).expanduser()
        if not folder.is_dir():
            raise DataError(f"root={str(root)!r} is not a folder: give the folder that holds the data files")
        return [folder]
    folders = []
    named = os.environ.get("AUTOCL_DATA")
    if named:
        folder = Path(named).expanduser()
        if not folder.is_dir():
            raise DataError(f"AUTOCL_DATA={named!r} is not a folder: correct or unset the variable")
        folders.append(folder)
    return [*folders, *_shared_folders(), cache_folder() / "files"]


def locate(info: SetInfo, split: str, *, root: str | Path | None = None) -> Found | None:
    """The first folder and form that has every file `split` needs, or None.

    Inside a data folder the files lie in a sub-folder named after the set. An explicit `root` may also be
    that sub-folder itself; the other places may not, because several sets use the same file names.
    """
    for folder in search_folders(root):
        places = [folder / name for name in (info.name, *info.folders)]
        if root is not None:
            places.append(folder)
        for place in places:
            for form in info.forms:
                if form.splits and split not in form.splits:
                    continue
                paths = {file.name: place / file.name for file in form.files_for(split)}
                if paths and all(path.exists() for path in paths.values()):
                    return form, paths
    return None


def missing(info: SetInfo, split: str, root: str | Path | None) -> DataError:
    """The error that tells which file to put where."""
    target = (Path(root).expanduser() if root is not None else cache_folder() / "files") / info.name
    forms = [form for form in info.forms if not form.splits or split in form.splits]
    ways = [" and ".join(file.name for file in form.files_for(split)) for form in forms]
    searched = ", ".join(str(folder) for folder in search_folders(root))
    urls = [file.urls[0] for form in forms[:1] for file in form.files_for(split) if file.urls]
    return DataError(
        f"{info.title} ({split}) was not found in {searched}. Put {', or '.join(ways)} into {target}"
        + (f" (official address: {' '.join(urls)})" if urls else "")
    )
