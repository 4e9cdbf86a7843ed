"""Number of torch's threads and their way of waiting, set before torch is imported.

OpenMP's threads spin while they wait for work. On a machine that does anything else they spin against the
other load: a training step took nine times as long (`docs/use.md`). Sleeping costs microseconds.
"""

import os
from pathlib import Path

QUOTA = Path("/sys/fs/cgroup/cpu.max")
"""File in which Linux states a container's share of the processors: quota and period, or "max"."""


def configure_threads() -> None:
    """Let threads sleep while they wait, and have no more of them than this process may use cores.

    Values that the user has set are kept. Child processes inherit them.

    Example:
        >>> configure_threads()
        >>> os.environ["OMP_WAIT_POLICY"] in ("PASSIVE", "ACTIVE")
        True
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("KMP_BLOCKTIME", "0")  # the same for Intel's OpenMP
    os.environ.setdefault("OMP_NUM_THREADS", str(usable_cores()))


def usable_cores(quota: Path = QUOTA) -> int:
    """Cores that this process may use: those it is bound to, and no more than its container's share.

    Args:
        quota: the file with the container's share.
    """
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        allowed, period = quota.read_text(encoding="ascii").split()
        share = bound if allowed == "max" else int(allowed) // int(period)
    except (OSError, ValueError, ZeroDivisionError):
        share = bound
    return max(1, min(bound, share))
