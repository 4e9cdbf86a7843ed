"""Conv-4: the four-block convolutional encoder of the few-shot literature, as the paper uses it.

Shape legend: n = images, C = input channels, F = filters, H, W = pixels.
"""

from collections.abc import Iterator

import torch
from torch import nn

from autocl.encoders.base import ENCODERS, Encoder, EncoderConfig, ImageShape, Norm, check_halvings
from autocl.ops.conv_blocks import BlockParameters, conv_blocks, infer, infers_alone, supports

N_BLOCKS = 4


class Conv4(Encoder):
    """Four blocks of conv 3×3 → norm → max-pool 2×2 → dropout → ReLU, flattened.

    Each block halves the image, rounding down, so 32×32 ends at 2×2 and 28×28 at 1×1. Instance norm sees
    one image at a time: an image's features do not depend on what else is in the batch.

    With instance norm on the CPU in full precision the blocks run as `autocl.ops.conv_blocks`: the same
    function and gradient, several times faster, but differentiable only once. Everywhere else `blocks` runs.

    Args:
        channels: C, input channels.
        height: H; at least 16.
        width: W; at least 16.
        filters: F, channels of every block.
        norm: "instance" (the paper's; affine, no running statistics), "batch" or "none".
        dropout: rate, elementwise, after each max-pool.

    Example:
        >>> encoder = Conv4(channels=3, height=32, width=32)
        >>> encoder(torch.zeros(5, 3, 32, 32)).shape, sum(p.numel() for p in encoder.parameters())
        (torch.Size([5, 128]), 28896)
    """

    def __init__(
        self,
        *,
        channels: int,
        height: int,
        width: int,
        filters: int = 32,
        norm: Norm = "instance",
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        check_halvings("Conv-4", N_BLOCKS, height=height, width=width)
        self.norm, self.filters = norm, filters
        self.dropout = dropout
        self.n_features = filters * (height // 2**N_BLOCKS) * (width // 2**N_BLOCKS)
        self.blocks = nn.Sequential(
            *(_block(channels if i == 0 else filters, filters, norm, dropout) for i in range(N_BLOCKS))
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Features of images.

        Args:
            x: [n, C, H, W].

        Returns:
            [n, n_features], in the order (filter, row, column).
        """
        if self.norm != "instance" or not supports(x):
            features: torch.Tensor = self.blocks(x)
            return features.flatten(1)
        if torch.is_grad_enabled() or self.training or torch.is_autocast_enabled("cpu"):
            rate = self.dropout if self.training else 0.0
            return conv_blocks(x, self._parameters_of_blocks(), dropout=rate).flatten(1)
        # Nothing is kept between calls: a fused optimiser changes parameters without counting versions.
        return infer(x, self._parameters_of_blocks())

    def independent(self, x: torch.Tensor) -> bool:
        """With instance norm, by a kernel for one image, or by oneDNN (an observation that tests hold)."""
        return self.norm == "instance" and supports(x) and infers_alone(x, self.filters)

    def _parameters_of_blocks(self) -> Iterator[BlockParameters]:
        for block in self.blocks._modules.values():
            # As block.parameters(), which takes several times as long.
            conv, norm = block._modules["0"], block._modules["1"]
            assert isinstance(conv, nn.Conv2d)
            assert isinstance(norm, nn.InstanceNorm2d)
            assert conv.bias is not None
            yield BlockParameters(conv.weight, conv.bias, norm.weight, norm.bias)


def _block(channels: int, filters: int, norm: Norm, dropout: float) -> nn.Sequential:
    norms: dict[Norm, nn.Module] = {
        "instance": nn.InstanceNorm2d(filters, affine=True),
        "batch": nn.BatchNorm2d(filters),
        "none": nn.Identity(),
    }
    return nn.Sequential(
        nn.Conv2d(channels, filters, 3, padding=1),
        norms[norm],
        nn.MaxPool2d(2),
        nn.Dropout(dropout),
        nn.ReLU(),
    )


@ENCODERS.register("conv4")
def _conv4(config: EncoderConfig, shape: ImageShape) -> Conv4:
    return Conv4(**shape._asdict(), filters=config.width or 32, norm=config.norm, dropout=config.dropout)
