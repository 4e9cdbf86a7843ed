"""The log of a run: JSON lines, TensorBoard where installed, and progress on the terminal."""

import json
import math
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, TypedDict

import torch
from rich.progress import MofNCompleteColumn

from autocl.errors import FileError
from autocl.objective import StreamLosses
from autocl.progress import progress_bar
from autocl.typed_json import read_json_lines


class LogLine(TypedDict):
    """A line of a log: its step, and anything by name."""

    step: int


class RunLog(AbstractContextManager["RunLog"]):
    """log.jsonl, and progress with an ETA: a live line on a terminal, plain lines elsewhere.

    Args:
        folder: the run's folder; None logs nowhere (ranks other than the first, dry runs).
        total: steps of the whole run.
        at: steps done already.
        length: bytes of the log that belong to them; the rest is cut off.
    """

    def __init__(self, folder: Path | None, *, total: int, at: int = 0, length: int = 0) -> None:
        self.total = total
        self._bar = progress_bar(MofNCompleteColumn(), "{task.fields[note]}")
        self._started, self._first, self._spoken = time.monotonic(), at, 0.0
        self._file = None
        self._board: Any = None
        if folder is None:
            return
        self._path = folder / "log.jsonl"
        with self._writing():
            self._path.touch()
            with self._path.open("r+b") as file:
                # Never longer than it is: that would fill it up with zero bytes.
                file.truncate(min(length, self._path.stat().st_size))
            # Line by line, so that others can follow the run.
            self._file = self._path.open("a", encoding="utf-8", buffering=1)
        self._board = _tensorboard(folder, at)
        self._task = self._bar.add_task("meta-training", total=total, completed=at, note="")
        self._bar.start()

    @property
    def length(self) -> int:
        """Bytes written so far, flushed to disk."""
        if self._file is None:
            return 0
        with self._writing():
            self._file.flush()
            os.fsync(self._file.fileno())
            return self._file.tell()

    def record(self, step: int, values: dict[str, Any]) -> None:
        """One line of the log: step, and numbers by name. NaN, which JSON lacks, is left out."""
        finite = {k: v for k, v in values.items() if not (isinstance(v, float) and not math.isfinite(v))}
        if self._file is not None:
            with self._writing():
                self._file.write(json.dumps({"step": step, **finite}) + "\n")
        if self._board is not None:
            for name, value in finite.items():
                if isinstance(value, int | float):
                    self._board.add_scalar(name, value, step)

    def show(self, step: int, note: str) -> None:
        """Move the bar; without a terminal, print a line every twenty seconds."""
        if self._file is None:
            return
        if not self._bar.disable:
            self._bar.update(self._task, completed=step, note=note)
            return
        now = time.monotonic()
        if now - self._spoken < 20 and step != self.total:
            return
        self._spoken = now
        rate = (now - self._started) / max(1, step - self._first)
        left = rate * (self.total - step)
        print(f"step {step}/{self.total}  {note}  ETA {left / 60:.1f} min", file=sys.stderr, flush=True)

    def say(self, text: str) -> None:
        """A message of its own: validations, checkpoints, why a run ends."""
        if self._file is not None:
            self._bar.console.print(text, highlight=False, soft_wrap=True)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise FileError(
                f"could not write {self._path}: {error.strerror}; the last checkpoint is untouched, make "
                "room and continue with --resume"
            ) from error

    def __exit__(self, *_: object) -> None:
        self._bar.stop()
        if self._board is not None:
            self._board.close()
        if self._file is not None:
            # What could not be written was reported already, and closing would try it again.
            with suppress(OSError):
                self._file.close()


def _tensorboard(folder: Path, at: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder), purge_step=at)


def loss_terms(outcome: StreamLosses, names: Sequence[str]) -> dict[str, float]:
    """Loss terms and accuracies apart by image set and position, as the paper's Figure 2 needs them.

    Args:
        outcome: of a step.
        names: of the image sets, in the order of the recipe.

    Returns:
        term/SET/POSITION/own, …/first (NaN without a 1-shot term) and …/back (the mean over the later
        boundaries); accuracy/SET/POSITION/own and …/back.
    """
    values: dict[str, float] = {}
    losses, accuracies = outcome.losses.values.cpu(), outcome.accuracies.values.cpu()
    for j, source in enumerate(outcome.sources):
        name = f"{names[source] if source >= 0 else 'mixture'}/{j + 1}"
        values[f"term/{name}/own"] = float(losses[j, j])
        values[f"accuracy/{name}/own"] = float(accuracies[j, j])
        values[f"term/{name}/first"] = float(outcome.one_shot[j])
        if j + 1 < len(losses):
            values[f"term/{name}/back"] = float(losses[j + 1 :, j].nanmean())
            values[f"accuracy/{name}/back"] = float(accuracies[j + 1 :, j].nanmean())
    return values


def status_line(loss: float, outcome: StreamLosses, streams_per_second: float) -> str:
    """Loss, its own and backward terms, accuracies when learned and at the end of the stream, and speed."""
    losses = outcome.losses.values
    own = float(outcome.losses.diagonal.nanmean())
    later = losses[torch.ones_like(losses, dtype=torch.bool).tril(-1)]
    back = f" back {float(later.nanmean()):.2f}" if len(later) else ""
    learned, last = (
        " ".join(f"{100 * a:.0f}" for a in row.tolist() if not math.isnan(a))
        for row in (outcome.accuracies.diagonal, outcome.accuracies.last)
    )
    return (
        f"loss {loss:.3f} (own {own:.2f}{back})  accuracy learned [{learned}] end [{last}] %  "
        f"{streams_per_second:.1f} streams/s"
    )


def read_log(path: Path) -> list[dict[str, Any]]:
    """All lines of a run's log, but for a last one that a killed run did not finish."""
    return [dict(line) for line in read_json_lines(path, LogLine)]
