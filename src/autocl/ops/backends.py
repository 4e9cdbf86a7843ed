"""Which implementation of a recurrence runs: named by the user, or chosen by the tensors' device."""

import importlib.util
import warnings
from functools import cache

from torch import Tensor

from autocl.errors import InputError

BACKENDS = ("auto", "naive", "recompute", "cpu", "triton")


@cache
def _available(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


@cache
def _warn_once(message: str) -> None:
    warnings.warn(message, RuntimeWarning, stacklevel=4)


def choose(backend: str, x: Tensor) -> str:
    """Resolve a backend name for tensors like x.

    "auto" is the numba kernel on CPU and Triton on CUDA; where the package for that is missing, the
    recomputing PyTorch loop stands in, with one warning.
    """
    if backend not in BACKENDS:
        raise InputError(f"unknown backend {backend!r}: choose one of {', '.join(BACKENDS)}")
    if backend == "auto":
        wanted, package = {"cpu": ("cpu", "numba"), "cuda": ("triton", "triton")}.get(x.device.type, ("", ""))
        if package and _available(package):
            return wanted
        if package:
            _warn_once(
                f"{package} is not installed: the recurrence runs as a PyTorch loop, many times slower. "
                f"Remedy: pip install {package}"
            )
        return "recompute"
    if backend == "cpu" and x.device.type != "cpu":
        raise InputError(f"backend 'cpu' needs tensors on the CPU, got {x.device}; use backend='auto'")
    if backend == "cpu" and not _available("numba"):
        raise InputError("backend 'cpu' needs numba: pip install numba, or use backend='auto'")
    return backend
