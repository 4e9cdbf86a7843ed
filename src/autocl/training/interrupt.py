"""Ctrl-C, SIGTERM and a closed terminal ask a run to stop after its step."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType


class InterruptedRunError(Exception):
    """A signal asked the run to end; its checkpoint is written."""

    def __init__(self, signum: int, folder: Path) -> None:
        name = signal.Signals(signum).name
        super().__init__(f"stopped by {name}; continue with autocl train --resume {folder}")
        self.signum = signum


@contextmanager
def signals() -> Iterator[list[int]]:
    """Note SIGINT, SIGTERM and SIGHUP in the list that is yielded; a second one ends the process at once."""
    received: list[int] = []

    def note(signum: int, frame: FrameType | None) -> None:
        if received:
            raise KeyboardInterrupt if signum == signal.SIGINT else SystemExit(128 + signum)
        received.append(signum)
        # Not print(): the signal may have come in the middle of one, and streams are not reentrant.
        with suppress(OSError):  # a closed terminal takes no message
            os.write(2, b"\nsaving after this step; interrupt again to stop at once\n")

    try:
        old = {s: signal.signal(s, note) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    except ValueError:  # not in the main thread: signals are somebody else's business
        yield received
        return
    try:
        yield received
    finally:
        for s, handler in old.items():
            signal.signal(s, handler)
