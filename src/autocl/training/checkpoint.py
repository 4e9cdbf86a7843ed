"""Checkpoints: one safetensors file that holds everything a run needs to go on as if nothing had happened.

Streams, dropout and augmentation are functions of (seed, step), so no generator has to be saved: the step is
enough. The file is replaced atomically; until the new one is complete the old one stands.
"""

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from autocl.errors import FileError, TrainingError
from autocl.files import read_tensors, write_tensors
from autocl.learner.state import LearnerState

FILE_NAME = "last.safetensors"


@dataclass(kw_only=True)
class Progress:
    """Where a run stands, apart from its tensors."""

    step: int = 0
    """Steps done."""
    best_score: float = -1.0
    best_step: int = -1
    stale: int = 0
    """Validations since the best one."""
    log_bytes: int = 0
    """Length of the log at this moment; what a killed run wrote behind it is cut off on resuming."""
    seconds: float = 0.0
    """Time spent training, over all sessions."""


def save(
    folder: Path,
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    progress: Progress,
    carried: LearnerState | None,
) -> None:
    """Write the checkpoint of a run."""
    tensors = {f"model.{name}": t.detach() for name, t in model.state_dict().items()}
    # By name, not by the optimiser's numbering: the file stays readable and does not depend on an order.
    for name, parameter in model.named_parameters():
        for key, value in optimiser.state.get(parameter, {}).items():
            tensors[f"optimiser.{name}.{key}"] = value
    if carried is not None:
        tensors |= {f"carried.{name}": t.detach() for name, t in carried.tensors.items()}
    meta = {"kind": "checkpoint", "progress": json.dumps(asdict(progress))}
    write_tensors(folder / FILE_NAME, {n: t.cpu().contiguous() for n, t in tensors.items()}, meta)


def load(
    folder: Path, model: nn.Module, optimiser: torch.optim.Optimizer
) -> tuple[Progress, LearnerState | None]:
    """Restore a run into a model and optimiser of the same recipe; also the carried state of all streams."""
    file = folder / FILE_NAME
    if not file.exists():
        raise TrainingError(f"{folder}: nothing to resume, there is no {FILE_NAME} in it")
    tensors, meta = read_tensors(file, kind="checkpoint")
    model_part = _part(tensors, "model.")
    try:
        model.load_state_dict(model_part)
        for name, parameter in model.named_parameters():
            state: dict[str, Any] = {
                key: value if value.dim() == 0 else value.to(parameter.device)
                for key, value in _part(tensors, f"optimiser.{name}.").items()
            }
            if state:
                optimiser.state[parameter] = state
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise FileError(f"{file}: does not fit this recipe's learner: {reason}") from error
    carried = _part(tensors, "carried.")
    device = next(model.parameters()).device
    return _progress(file, meta), LearnerState(carried).to(device) if carried else None


def read_progress(folder: Path) -> Progress:
    """Where a run stands, without building its learner."""
    file = folder / FILE_NAME
    return _progress(file, read_tensors(file, kind="checkpoint")[1])


def _progress(file: Path, meta: dict[str, str]) -> Progress:
    try:
        return Progress(**json.loads(meta["progress"]))
    except (KeyError, TypeError, ValueError) as error:
        raise FileError(f"{file}: not a checkpoint of this version of autocl ({error})") from error


def check_space(folder: Path, needed: int) -> None:
    """Refuse to start a run whose checkpoints would not fit on the disk or could not be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".probe"
        probe.write_bytes(b"\0")
        probe.unlink()
        # A killed process leaves behind what it was writing.
        for half in folder.glob(".*.safetensors.*"):
            half.unlink()
    except OSError as error:
        raise TrainingError(f"cannot write to {folder}: {error.strerror}; choose another --out") from error
    free = shutil.disk_usage(folder).free
    if free < 3 * needed:
        raise TrainingError(
            f"{folder}: {free / 1e6:.0f} MB free, but a run needs about {3 * needed / 1e6:.0f} MB for its "
            "checkpoints; free some space or choose another --out"
        )


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name[len(prefix) :]: t for name, t in tensors.items() if name.startswith(prefix)}
