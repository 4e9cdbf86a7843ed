"""A lock that two processes respect, released when its holder dies."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on `path` (made if missing, never deleted), waiting for whoever has it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        _acquire(handle)
        yield
    finally:
        os.close(handle)  # closing releases


if sys.platform == "win32":
    import msvcrt
    import time

    def _acquire(handle: int) -> None:
        # msvcrt gives up after ten seconds; a download takes longer.
        while True:
            try:
                msvcrt.locking(handle, msvcrt.LK_LOCK, 1)
                return
            except OSError:
                time.sleep(0.1)

else:
    import fcntl

    def _acquire(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX)
