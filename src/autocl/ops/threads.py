"""Run a kernel over a flat list of independent items, on as many threads as torch may use.

The kernels release the GIL, so plain Python threads do. Compared with numba's own threading layers this is
safe to call from several threads at once, survives fork, and obeys `torch.set_num_threads`. Helpers wait at a
queue in C: a ThreadPoolExecutor's futures cost several times as much for each call.
"""

import os
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from queue import SimpleQueue
from threading import Thread
from typing import Any

import torch
from torch import Tensor

# Below this many steps in all, handing work to a second thread costs more than it saves.
WORTH_SHARING = 4096
# Pieces for each thread: a core that other work slows down then holds nobody up for long.
PIECES = 4

Failures = SimpleQueue[BaseException | None]
Jobs = SimpleQueue[tuple[Callable[[], None], Failures]]


if hasattr(os, "register_at_fork"):
    # torch's own threads do not live on in a forked child, which would wait for them for ever.
    os.register_at_fork(after_in_child=lambda: torch.set_num_threads(1))


@cache
def _jobs(pid: int) -> Jobs:
    """One queue and its helpers per process: a forked child must not wait for its parent's threads."""
    jobs: Jobs = SimpleQueue()
    for _ in range(os.cpu_count() or 1):
        Thread(target=_help, args=(jobs,), name="autocl", daemon=True).start()
    return jobs


def _help(jobs: Jobs) -> None:
    while True:
        work, failures = jobs.get()
        try:
            work()
            failures.put(None)
        except BaseException as failure:  # raised again by who asked for the work
            failures.put(failure)
        del work  # holds arrays: not until the next call


def in_threads(run: Callable[..., None], steps: int, *arrays: Any) -> None:
    """Call run(lo, hi, *arrays) so that the ranges cover the first axis of the arrays.

    Args:
        run: a compiled kernel that releases the GIL and writes into some of the arrays.
        steps: sequential steps per item, to judge whether sharing pays.
        arrays: numpy arrays whose first axis counts the items.
    """
    count = len(arrays[0])
    threads = min(torch.get_num_threads(), count)
    if threads == 1 or count * steps < WORTH_SHARING:
        run(0, count, *arrays)
        return
    pieces = min(PIECES * threads, count)
    todo = iter(pairwise([count * i // pieces for i in range(pieces + 1)]))

    def work() -> None:
        for lo, hi in todo:  # each piece goes to whoever asks first: advancing an iterator is atomic
            run(lo, hi, *arrays)

    jobs, failures = _jobs(os.getpid()), Failures()
    for _ in range(threads - 1):
        jobs.put((work, failures))
    try:
        work()
    finally:  # nobody may still write into the arrays when this returns
        failed = [failures.get() for _ in range(threads - 1)]
    for failure in failed:
        if failure is not None:
            raise failure


def flatten_heads(x: Tensor) -> Any:
    """[B, H, ...] -> numpy [B*H, ...]: the kernels see a flat list of independent items."""
    return x.contiguous().view(-1, *x.shape[2:]).numpy()
