"""The files of a set: searched for in folders, nearest to the user's word first, or else downloaded.

A download is resumed when it breaks off, verified, and put in place by one rename.
"""

import hashlib
import http.client
import logging
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Literal

from filelock import FileLock
from rich.progress import DownloadColumn, TransferSpeedColumn

from autocl import __version__
from autocl.data.cache import cache_folder
from autocl.data.catalog import CATALOG, DataFile, FileLayout, SetInfo
from autocl.errors import DataError
from autocl.progress import progress_bar

_TRIES = 4
"""Per address. A broken connection continues where it stopped, so even a bad line gets on."""
_CHUNK = 1 << 17
_TIMEOUT = 30.0
_NETWORK = (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError, OSError)

log = logging.getLogger(__name__)

Verdict = Literal["official", "equivalent", "unknown"]


def download(file: DataFile, target: Path) -> Path:
    """Put `file` at `target`, from the first of its addresses that gives the right bytes.

    Safe when two processes ask at once: the second waits, then finds the file. A partial download stays as
    `target.part` and is continued by the next call.

    Args:
        file: what to fetch; its check sum decides whether it arrived.
        target: where to; the folder is made.

    Raises:
        DataError: when no address gave the file; says what to put where by hand.
    """
    if not file.md5 and not file.sha256:
        raise DataError(f"{file.name} has no known check sum and is not downloaded: put it at {target}")
    reasons = []
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(target.with_name(target.name + ".lock")):
            if target.exists() and verdict(file, target) == "official":
                return target
            for url in file.urls:
                problem = _from_address(file, url, target)
                if problem is None:
                    return target
                log.warning("%s: %s", url, problem)
                reasons.append(f"{url}: {problem}")
    except OSError as error:
        raise DataError(
            f"cannot write {target.parent} ({error}): set AUTOCL_CACHE to a folder you may write"
        ) from error
    raise DataError(
        f"{file.name} could not be downloaded ({'; '.join(reasons) or 'no address is known'}). "
        f"Get it on another machine or later, and put it at {target}"
    )


def verdict(file: DataFile, path: Path) -> Verdict:
    """Compare the content of `path` with what is known of the file.

    Returns:
        "official": it is the file of the catalogue, byte for byte; "equivalent": a known other packing of the
        same content; "unknown": neither, or nothing is known to compare with.
    """
    if path.is_dir():
        return "unknown"
    if file.md5 and _file_sum(path, "md5") == file.md5:
        return "official"
    if file.sha256 or file.equivalent:
        found = _file_sum(path, "sha256")
        if found == file.sha256:
            return "official"
        if found in file.equivalent:
            return "equivalent"
    return "unknown"


def _file_sum(path: Path, algorithm: str) -> str:
    """Hex digest of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


def _from_address(file: DataFile, url: str, target: Path) -> str | None:
    """Try one address; None when the file is in place, else what went wrong."""
    part = target.with_name(target.name + ".part")
    problem = "no answer"
    for _ in range(_TRIES):
        resumed = part.exists() and part.stat().st_size > 0
        try:
            with progress_bar(DownloadColumn(), TransferSpeedColumn()) as bar:
                _fetch(url, part, partial(bar.update, bar.add_task(file.name, total=None)))
        except urllib.error.HTTPError as error:
            problem = f"the server answered {error.code} {error.reason}"
            if error.code < 500:
                return problem
            continue
        except _NETWORK as error:
            problem = str(getattr(error, "reason", error)) or type(error).__name__
            continue
        if verdict(file, part) == "official":
            with part.open("rb+") as written:
                os.fsync(written.fileno())
            part.replace(target)
            return None
        part.unlink()
        problem = "it gave other bytes than the check sum promises"
        if not resumed:
            # Nothing older was mixed in, so asking this server again would give the same.
            return problem
    return problem


def _fetch(url: str, part: Path, tell: Callable[..., None]) -> None:
    """Append to `part` until the server's file is complete; start over where it cannot continue.

    Args:
        url: address of the file.
        part: what is there of it.
        tell: is told completed=bytes and total=bytes, the latter None if the server does not say.
    """
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"User-Agent": f"autocl/{__version__}"})
    if have:
        request.add_header("Range", f"bytes={have}-")
    try:
        response = urllib.request.urlopen(request, timeout=_TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code == 416 and have:
            return  # nothing lies beyond what we have; the check sum decides
        raise
    with response:
        continued = response.status == 206 and response.headers.get("Content-Range", "").startswith(
            f"bytes {have}-"
        )
        if response.status == 206 and not continued:
            part.unlink()
            raise http.client.HTTPException("the server continued at another place than asked")
        length = response.headers.get("Content-Length", "")
        done = have if continued else 0
        total = done + int(length) if length.isdigit() else None
        tell(completed=done, total=total)
        with part.open("ab" if continued else "wb") as out:
            while chunk := response.read(_CHUNK):
                out.write(chunk)
                done += len(chunk)
                tell(completed=done, total=total)
        if total is not None and done < total:
            raise http.client.IncompleteRead(b"", total - done)


Found = tuple[FileLayout, dict[str, Path]]
"""A layout of a set, and the path of each of its files."""


def _shared_folders() -> list[Path]:
    """`shared/data` beside the checkout: found from the package's own place and from where one works."""
    here = Path.cwd().resolve()
    above = (*Path(__file__).resolve().parents, here, *here.parents)
    places = dict.fromkeys(parent / "shared" / "data" for parent in above)
    return [folder for folder in places if folder.is_dir()]


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
    """The folder of a set's downloaded files."""
    return cache_folder() / "files" / (info.folders[0] if info.folders else info.name)


def find(info: SetInfo, split: str, *, root: str | Path | None = None) -> Found:
    """The files of a split: found, or else downloaded (not when `root` says where they are).

    Raises:
        DataError: when there is no way to get them; says which file to put where.
    """
    if (found := locate(info, split, root=root)) is not None:
        return found
    target = download_folder(info) if root is None else Path(root).expanduser() / info.name
    needed = [(layout, layout.files_for(split)) for layout in info.layouts]
    for layout, files in needed:
        if root is None and files and all(file.urls for file in files):
            return layout, {file.name: download(file, target / file.name) for file in files}
    ways = [" and ".join(file.name for file in files) for _, files in needed]
    searched = ", ".join(str(folder) for folder in search_folders(root))
    urls = [file.urls[0] for _, files in needed for file in files if file.urls]
    raise DataError(
        f"{info.title} ({split}) was not found in {searched}. Put {', or '.join(ways)} into {target}"
        + (f" (official address: {' '.join(urls[:2])})" if urls else "")
        + (f". {info.advice}" if info.advice else "")
    )


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
