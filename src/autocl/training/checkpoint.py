"""A run's folder: checkpoints, who writes to it, whether there is room, and which images it was begun with.

A checkpoint is one safetensors file that holds everything a run needs to go on as if nothing had happened.
Streams, dropout and augmentation are functions of (seed, step), so no generator has to be saved: the step is
enough. The file is replaced atomically; until the new one is complete the old one stands.
"""

import json
import math
import os
import shutil
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, TypedDict

import torch
from filelock import FileLock, Timeout
from torch import Tensor

from autocl.config import check, from_dict
from autocl.data.imageset import LabelledSet
from autocl.errors import FileError, InputError, TrainingError
from autocl.files import read_tensors, write_json, write_tensors
from autocl.learner import Learner, LearnerState
from autocl.typed_json import parse_json, read_json

FILE_NAME = "last.safetensors"
GOOD = "good.safetensors"
"""The last checkpoint that nothing was wrong with; a run that diverges goes back to it."""
MOMENTS = {"step", "exp_avg", "exp_avg_sq"}
"""Names of the tensors that Adam keeps for each parameter."""
MAX_LOSS, MAX_GROWTH = 0.05, 100.0
"""A checkpoint is good if its score is at most so far below the best one, and its largest weight at most so
many times that of the good checkpoint before. A rate far too high multiplies weights by millions at once."""


@dataclass(kw_only=True)
class Progress:
    """Progress of a run, apart from its tensors."""

    retired: ClassVar[dict[str, Any]] = {"stale": ...}

    step: int = 0
    """Steps done."""
    best_score: float = -1.0
    best_step: int = -1
    validated: int = -1
    """Step of the last validation."""
    largest: float | None = None
    """Largest weight, at the last good checkpoint; None before the first."""
    finished: bool = False
    log_bytes: int = 0
    """Length of the log at this moment; what a killed run wrote behind it is cut off on resuming."""
    seconds: float = 0.0
    """Time spent training, over all sessions."""

    def __post_init__(self) -> None:
        check(self)


def save(
    folder: Path,
    model: Learner,
    optimiser: torch.optim.Optimizer,
    progress: Progress,
    carried: LearnerState | None,
    *,
    score: float | None = None,
) -> None:
    """Write the checkpoint of a run.

    Args:
        folder: the run's.
        model: the learner.
        optimiser: its.
        progress: where the run stands; updated when the checkpoint is a good one.
        carried: state that the next batch starts from.
        score: of the validation just made; without one it is not asked whether the checkpoint is good.
    """
    good = score is not None and _is_good(model, progress, score)
    tensors = {f"model.{name}": t for name, t in model.weights().items()}
    # By name, not by the optimiser's numbering: the file stays readable and does not depend on an order.
    for name, parameter in model.named_parameters():
        for key, value in optimiser.state.get(parameter, {}).items():
            tensors[f"optimiser.{name}.{key}"] = value
    if carried is not None:
        tensors |= {f"carried.{name}": t for name, t in carried.tensors.items()}
    meta = {"kind": "checkpoint", "progress": json.dumps(asdict(progress))}
    for name in (GOOD, FILE_NAME) if good else (FILE_NAME,):
        write_tensors(folder / name, tensors, meta)


def go_back(folder: Path) -> int | None:
    """Put the good checkpoint in the place of the last one; its step, or None if there is none."""
    if not (folder / GOOD).is_file():
        return None
    tensors, meta = read_tensors(folder / GOOD, kind="checkpoint")
    write_tensors(folder / FILE_NAME, tensors, meta)
    return _progress(folder / GOOD, meta).step


def _is_good(model: Learner, progress: Progress, score: float) -> bool:
    largest = max((float(t.detach().abs().max()) for t in model.weights().values() if t.numel()), default=0.0)
    grown = progress.largest is not None and largest > MAX_GROWTH * progress.largest
    good = score >= progress.best_score - MAX_LOSS and not grown and math.isfinite(largest)
    if good:
        progress.largest = largest
    return good


def load(
    folder: Path, model: Learner, optimiser: torch.optim.Optimizer
) -> tuple[Progress, LearnerState | None]:
    """Restore a run into a model and optimiser of the same recipe; also the carried state of all streams."""
    file = folder / FILE_NAME
    if not file.exists():
        raise TrainingError(f"{folder}: nothing to resume, there is no {FILE_NAME} in it")
    tensors, meta = read_tensors(file, kind="checkpoint")
    try:
        model.load_weights(_part(tensors, "model."))
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise FileError(f"{file}: does not fit this recipe's learner: {reason}") from error
    for name, parameter in model.named_parameters():
        state: dict[str, Any] = _part(tensors, f"optimiser.{name}.")
        if not state:
            continue
        if not _fits(state, parameter):
            raise FileError(f"{file}: damaged: the optimiser's state of {name} does not fit")
        moved = {k: t if t.dim() == 0 else t.to(parameter.device) for k, t in state.items()}
        optimiser.state[parameter] = moved
    carried = _part(tensors, "carried.")
    return _progress(file, meta), LearnerState(carried).to(model.device) if carried else None


def _fits(state: dict[str, Tensor], parameter: Tensor) -> bool:
    """Whether Adam can go on with what a file says it kept of a parameter."""
    if state.keys() != MOMENTS or state["step"].shape != () or not 0 <= float(state["step"]) < 2**53:
        return False
    moments = [t for name, t in state.items() if name != "step"]
    alike = all(t.shape == parameter.shape and t.dtype == parameter.dtype for t in moments)
    return alike and all(bool(t.isfinite().all()) for t in state.values())


def read_progress(folder: Path) -> Progress:
    """Read a run's progress without building its learner."""
    file = folder / FILE_NAME
    return _progress(file, read_tensors(file, kind="checkpoint")[1])


def _progress(file: Path, meta: dict[str, str]) -> Progress:
    try:
        return from_dict(Progress, parse_json(meta.get("progress", "{}"), dict[str, Any], where=str(file)))
    except InputError as error:
        raise FileError(f"{file}: not a checkpoint of this version of autocl ({error})") from error


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name[len(prefix) :]: t for name, t in tensors.items() if name.startswith(prefix)}


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
