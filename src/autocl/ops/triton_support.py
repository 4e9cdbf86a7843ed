"""Common parts of the Triton backends: triton itself, or the reason why it cannot be used.

Importing this module imports triton, so only the `triton.py` of an op does.
"""

from collections.abc import Callable

from torch import Tensor

from autocl.errors import InputError

try:
    import triton
    import triton.language as tl
except ImportError as error:
    raise InputError(
        "backend 'triton' needs the package triton, which is not installed: "
        "pip install 'autocl[gpu]' on Linux, or choose backend 'cpu' or 'naive'"
    ) from error

__all__ = ["INTERPRETED", "launch_options", "require_gpu", "tl", "triton"]

INTERPRETED: bool = not isinstance(tl.sum, triton.JITFunction)
"""Whether kernels run in Triton's interpreter: `TRITON_INTERPRET=1` was set when triton was imported."""


def require_gpu(**tensors: Tensor) -> None:
    """Refuse tensors that the kernels cannot reach, by the name the caller gave them."""
    for name, tensor in tensors.items():
        if not (tensor.is_cuda or INTERPRETED):
            raise InputError(
                f"backend 'triton' runs on CUDA tensors, but {name} is on {str(tensor.device)!r}: "
                "move it with .to('cuda'), choose backend 'cpu', or set TRITON_INTERPRET=1 before "
                "importing triton to run the kernels in its interpreter"
            )


def launch_options(D: int, warps: Callable[[int], int]) -> dict[str, int | bool]:
    """Tile size and warps for a head size D.

    The side P of the tile that holds D rows or columns is a power of two, as Triton wants it, and four rows
    at least, for the rates. `warps` gives the fewest for which ptxas spills no registers (sm_80) with the
    tiles of W and dL/dW; whether more would be faster has not been measured. Fused multiply-add is asked for
    because Triton's default for it changes between versions.
    """
    P = max(4, 1 << (D - 1).bit_length())
    return {"P": P, "num_warps": warps(P), "enable_fp_fusion": True}
