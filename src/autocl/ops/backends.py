"""Choice of a recurrence's implementation, by name or by the tensors' device, and checks of its arguments."""

import importlib.util
import warnings
from functools import cache

import torch
from torch import Tensor

from autocl.errors import InputError

BACKENDS = ("auto", "naive", "recompute", "cpu", "triton")


@cache
def available(module: str) -> bool:
    """Whether a package is installed; asked without importing it."""
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
        if package and available(package):
            return wanted
        if package:
            _warn_once(
                f"{package} is not installed: the recurrence runs as a PyTorch loop, many times slower. "
                f"Remedy: pip install {package}"
            )
        return "recompute"
    if backend == "cpu" and x.device.type != "cpu":
        raise InputError(f"backend 'cpu' needs tensors on the CPU, got {x.device}; use backend='auto'")
    if backend == "cpu" and not available("numba"):
        raise InputError("backend 'cpu' needs numba: pip install numba, or use backend='auto'")
    return backend


def check_tensors(op: str, **tensors: tuple[Tensor, int]) -> None:
    """Refuse arguments of an op that it cannot take together.

    Args:
        op: its name.
        **tensors: by name, each with the number of axes it must have; all of the first one's type and device.
    """
    first, (like, _) = next(iter(tensors.items()))
    for name, (x, axes) in tensors.items():
        if x.dim() != axes:
            raise InputError(f"{op}: {name} must have {axes} axes, got shape {list(x.shape)}")
        if x.dtype not in (torch.float32, torch.float64):
            raise InputError(f"{op}: {name} must be float32 or float64, got {x.dtype}; use .float()")
        if x.dtype != like.dtype:
            raise InputError(f"{op}: {first} is {like.dtype} but {name} is {x.dtype}; convert one of them")
        if x.device != like.device:
            raise InputError(
                f"{op}: {first} is on {like.device} but {name} is on {x.device}; move one of them"
            )
