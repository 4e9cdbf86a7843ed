"""Fast convolutional blocks for the CPU. Nothing here is compiled before its first use."""

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor

from autocl.ops.backends import available

__all__ = ["ONEDNN", "BlockParameters", "conv_blocks", "infer", "infers_alone", "supports"]

ONEDNN: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
"""Whether torch has the library that convolves; with it an image's result does not depend on its company."""


FILTERS = 32
"""A number of filters that is a multiple of this goes to the kernel for one image, in `infer`."""


class BlockParameters(NamedTuple):
    """Parameters of one block of F filters on C channels."""

    weight: Tensor
    """[F, C, 3, 3], the convolution."""
    bias: Tensor
    """[F], of the convolution."""
    gamma: Tensor
    """[F], scale of the norm."""
    beta: Tensor
    """[F], offset of the norm."""


def supports(x: Tensor) -> bool:
    """Whether `conv_blocks` can take x: on the CPU, in full precision, outside `torch.compile` and export.

    Under autocast it convolves in bfloat16.
    """
    return (
        x.device.type == "cpu"
        and x.dtype in (torch.float32, torch.float64)
        and not torch.compiler.is_compiling()
        and available("numba")
    )


def conv_blocks(x: Tensor, parameters: Iterable[BlockParameters], *, dropout: float) -> Tensor:
    """Blocks of conv 3×3 → instance norm → max-pool → dropout → ReLU; see `cpu.conv_blocks`."""
    bf16 = torch.is_autocast_enabled("cpu") and x.dtype == torch.float32
    # Imported here because importing numba takes longer than importing all of autocl.
    from autocl.ops.conv_blocks import cpu

    with torch.autocast("cpu", enabled=False):
        return cpu.conv_blocks(x, parameters, dropout=dropout, bf16=bf16)


def infers_alone(x: Tensor, filters: int) -> bool:
    """Whether `infer` gives an image of x the same bits beside any others.

    The kernel that takes one image after the other does, and so does oneDNN, as far as it was tried.
    """
    return x.dtype == torch.float32 and (filters % FILTERS == 0 or ONEDNN)


def infer(x: Tensor, parameters: Iterable[BlockParameters]) -> Tensor:
    """`conv_blocks` without dropout and gradients; see `cpu.infer`."""
    from autocl.ops.conv_blocks import cpu

    return cpu.infer(x, parameters)
