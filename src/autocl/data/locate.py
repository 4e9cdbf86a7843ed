"""Where the files of a set come from: a search through folders, nearest to the user's word first."""

import logging
import os
from collections.abc import Iterator
from pathlib import Path

from autocl.data.cache import cache_folder
from autocl.data.catalog import CATALOG, FileLayout, SetInfo
from autocl.data.download import download, verdict
from autocl.errors import DataError

log = logging.getLogger(__name__)

Found = tuple[FileLayout, dict[str, Path]]
"""A layout of a set, and the path of each of its files."""


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
    """The first folder and layout that has every file `split` needs, or None.

    Inside a data folder the files lie in a sub-folder named after the set. An explicit `root` may also be
    that sub-folder itself; the other places may not, because several sets use the same file names.
    """
    for folder in search_folders(root):
        places = [folder / name for name in dict.fromkeys((info.name, *info.folders))]
        if root is not None:
            places.append(folder)
        for place in places:
            for layout in info.layouts:
                paths = {file.name: place / file.name for file in layout.files_for(split)}
                if paths and all(path.exists() for path in paths.values()):
                    return layout, paths
    return None


def download_folder(info: SetInfo) -> Path:
    """Where downloaded files of a set are kept."""
    return cache_folder() / "files" / (info.folders[0] if info.folders else info.name)


def fetch(info: SetInfo, split: str) -> Found | None:
    """Download the first layout of a set that can be; None when its files have to be got by hand."""
    for layout in info.layouts:
        files = layout.files_for(split)
        if files and all(file.urls for file in files):
            return layout, {file.name: download(file, download_folder(info) / file.name) for file in files}
    return None


def missing(info: SetInfo, split: str, root: str | Path | None) -> DataError:
    """The error that tells which file to put where."""
    target = download_folder(info) if root is None else Path(root).expanduser() / info.name
    ways = [" and ".join(file.name for file in layout.files_for(split)) for layout in info.layouts]
    searched = ", ".join(str(folder) for folder in search_folders(root))
    urls = [file.urls[0] for layout in info.layouts for file in layout.files_for(split) if file.urls]
    return DataError(
        f"{info.title} ({split}) was not found in {searched}. Put {', or '.join(ways)} into {target}"
        + (f" (official address: {' '.join(urls[:2])})" if urls else "")
        + (f". {info.advice}" if info.advice else "")
    )


def find(info: SetInfo, split: str, *, root: str | Path | None = None) -> Found:
    """The files of a split: found, or else downloaded (not when `root` says where they are).

    Raises:
        DataError: when there is no way to get them; says which file to put where.
    """
    found = locate(info, split, root=root)
    if found is None and root is None:
        found = fetch(info, split)
    if found is None:
        raise missing(info, split, root)
    return found


def check_identity(info: SetInfo, layout: FileLayout, paths: dict[str, Path]) -> None:
    """Refuse files that belong to another set; remark on copies nobody has compared with the official ones.

    MNIST, Fashion-MNIST and notMNIST use the same file names, so a copy in the wrong folder is a real danger.
    """
    for file in layout.files:
        path = paths.get(file.name)
        if path is None or path.is_dir() or verdict(file, path) != "unknown":
            continue
        for other in CATALOG.values():
            for namesake in (f for g in other.layouts for f in g.files if f.name == file.name):
                if other.name != info.name and namesake != file and verdict(namesake, path) != "unknown":
                    raise DataError(f"{path} is a file of {other.title}, not of {info.title}: replace it")
        if file.md5 or file.sha256:
            log.warning("%s is not a copy of %s known to autocl; reading it all the same", path, file.name)
