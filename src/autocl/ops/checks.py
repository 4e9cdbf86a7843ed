"""Checks shared by the recurrences: made before anything runs."""

import torch
from torch import Tensor

from autocl.errors import InputError


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
