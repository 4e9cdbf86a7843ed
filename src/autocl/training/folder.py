"""The folder of a run: who writes to it, whether there is room, and which images it was begun with."""

import os
import shutil
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypedDict

from filelock import FileLock, Timeout

from autocl.data.imageset import LabelledSet
from autocl.errors import FileError, TrainingError
from autocl.files import write_json
from autocl.typed_json import read_json

LOCK, HOLDER, DATA = ".lock", ".lock.json", "data.json"


class DataLine(TypedDict):
    """A record of one set that a run was begun with."""

    set: str
    classes: int
    hash: str


class HolderLine(TypedDict):
    """Process that holds a run's folder."""

    pid: int
    host: str


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder for this process; refuse at once if another one does, and say which."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / LOCK)
        lock.acquire(timeout=0)
    except Timeout as error:
        raise TrainingError(
            f"{folder} is in use by {_holder(folder)}: wait for it, end it, or choose another --out"
        ) from error
    except OSError as error:
        raise TrainingError(f"cannot write to {folder}: {error.strerror}; choose another --out") from error
    try:
        write_json(folder / HOLDER, {"pid": os.getpid(), "host": socket.gethostname()})
        yield
    finally:
        (folder / HOLDER).unlink(missing_ok=True)
        lock.release()


def check_space(folder: Path, needed: int) -> None:
    """Refuse to start a run whose checkpoints would not fit on the disk or could not be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # A killed process leaves behind what it was writing.
        for half in (*folder.glob(".*.safetensors.*"), *folder.glob(".*.json.*")):
            half.unlink()
    except OSError as error:
        raise TrainingError(f"cannot write to {folder}: {error.strerror}; choose another --out") from error
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise TrainingError(
            f"{folder}: {free / 1e6:.1f} MB free, but a run needs about {needed / 1e6:.1f} MB for its "
            "checkpoints; free some space or choose another --out"
        )


def check_data(folder: Path, sets: Sequence[LabelledSet], *, resume: bool) -> None:
    """Note which images a run uses; when it is resumed, refuse others."""
    now = describe_sets(sets)
    path = folder / DATA
    if resume and path.is_file():
        try:
            before = {line["set"]: line["hash"] for line in read_json(path, list[DataLine])}
        except FileError as error:
            raise TrainingError(f"{error}: delete it if the images are the same") from error
        changed = [line["set"] for line in now if before.get(line["set"]) != line["hash"]]
        if changed:
            raise TrainingError(
                f"{folder} was begun with other images of {', '.join(changed)}: bring them back, or start a "
                "new run with --init-from"
            )
    write_json(path, now)


def describe_sets(sets: Sequence[LabelledSet]) -> list[DataLine]:
    """Name, number of classes and content of each set."""
    return [{"set": f"{s.name}/{s.split}", "classes": s.n_classes, "hash": s.hash} for s in sets]


def _holder(folder: Path) -> str:
    try:
        who = read_json(folder / HOLDER, HolderLine)
        return f"process {who['pid']} on {who['host']}"
    except FileError:
        return "another process"
