"""A linear map as a module."""

from torch import Tensor, nn

from autocl.ops.linear import linear


class Linear(nn.Linear):
    """`torch.nn.Linear` by `autocl.ops.linear`: in bfloat16 where a training step asks for it.

    Example:
        >>> import torch
        >>> Linear(3, 5)(torch.zeros(2, 3)).shape
        torch.Size([2, 5])
    """

    def forward(self, input: Tensor) -> Tensor:
        """[..., K] -> [..., N]."""
        return linear(input, self.weight, self.bias)
