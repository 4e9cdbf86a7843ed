"""Common parts of the Triton backends: triton itself, or the reason why it cannot be used.

Importing this module imports triton, so only the `triton.py` of an op does.
"""

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

__all__ = ["INTERPRETED", "require_gpu", "tile_size", "tl", "triton"]

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


def tile_size(D: int) -> int:
    """The side of the tile that holds D rows or columns: Triton wants powers of two, the rates four rows."""
    return max(4, 1 << (D - 1).bit_length())
