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


def check_pair(op: str, x: Tensor, W: Tensor) -> None:
    """Check that x [B, H, T, D] and a state W [B or 1, H, R, D] belong together."""
    for name, tensor in (("u", x), ("W", W)):
        if tensor.dim() != 4:
            raise InputError(f"{op}: {name} must have 4 axes, got shape {list(tensor.shape)}")
        if tensor.dtype not in (torch.float32, torch.float64):
            raise InputError(f"{op}: {name} must be float32 or float64, got {tensor.dtype}; use .float()")
    if x.dtype != W.dtype:
        raise InputError(f"{op}: u is {x.dtype} but W is {W.dtype}; convert one of them")
    if x.device != W.device:
        raise InputError(f"{op}: u is on {x.device} but W is on {W.device}; move one of them")
    if W.shape[0] not in (1, x.shape[0]) or W.shape[1] != x.shape[1] or W.shape[3] != x.shape[3]:
        raise InputError(
            f"{op}: W {list(W.shape)} does not fit u {list(x.shape)}: batch must be 1 or equal, "
            "heads and head size equal"
        )
