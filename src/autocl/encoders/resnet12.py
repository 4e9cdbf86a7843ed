"""ResNet-12: the deeper encoder of the few-shot literature, four residual blocks of three convolutions.

Shape legend: n = images, C = input channels, H, W = pixels, F = filters of a block.
"""

import torch
from torch import nn

from autocl.encoders.base import ENCODERS, Encoder, EncoderConfig, ImageShape, Norm, check_halvings

N_BLOCKS = 4
SLOPE = 0.1


class ResNet12(Encoder):
    """Four residual blocks, each halving the image, then the mean over what is left of it.

    A block is conv → norm → LeakyReLU, twice, conv → norm, plus a 1×1 conv → norm of its input; then
    LeakyReLU, max-pool 2×2, dropout. Convolutions have no bias and norms no parameters.

    Args:
        channels: C, input channels.
        height: H; at least 16.
        width: W; at least 16.
        filters: F of the first block; the others have 3/2, 2 and 4 times as many.
        norm: "instance", "batch" or "none".
        dropout: rate, elementwise, after each max-pool.

    Example:
        >>> encoder = ResNet12(channels=3, height=32, width=32)
        >>> encoder(torch.zeros(2, 3, 32, 32)).shape
        torch.Size([2, 256])
    """

    def __init__(
        self,
        *,
        channels: int,
        height: int,
        width: int,
        filters: int = 64,
        norm: Norm = "instance",
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        check_halvings("ResNet-12", N_BLOCKS, height=height, width=width)
        widths = [channels, filters, 3 * filters // 2, 2 * filters, 4 * filters]
        self.blocks = nn.Sequential(
            *(_Block(widths[i], widths[i + 1], norm, dropout) for i in range(N_BLOCKS))
        )
        self.n_features = widths[-1]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Features [n, n_features] of images x [n, C, H, W]."""
        pixels: torch.Tensor = self.blocks(x)
        return pixels.mean((2, 3))


class _Block(nn.Module):
    def __init__(self, channels: int, filters: int, norm: Norm, dropout: float) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *_conv(channels, filters, 3, norm),
            nn.LeakyReLU(SLOPE),
            *_conv(filters, filters, 3, norm),
            nn.LeakyReLU(SLOPE),
            *_conv(filters, filters, 3, norm),
        )
        self.shortcut = nn.Sequential(*_conv(channels, filters, 1, norm))
        self.end = nn.Sequential(nn.LeakyReLU(SLOPE), nn.MaxPool2d(2), nn.Dropout(dropout))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.end(self.body(x) + self.shortcut(x))
        return out


def _conv(channels: int, filters: int, size: int, norm: Norm) -> list[nn.Module]:
    convolution = nn.Conv2d(channels, filters, size, padding=size // 2, bias=False)
    norms: dict[Norm, type[nn.Module]] = {"instance": nn.InstanceNorm2d, "batch": nn.BatchNorm2d}
    return [convolution, norms[norm](filters, affine=False)] if norm in norms else [convolution]


@ENCODERS.register("resnet12")
def _resnet12(config: EncoderConfig, shape: ImageShape) -> ResNet12:
    return ResNet12(**shape._asdict(), filters=config.width or 64, norm=config.norm, dropout=config.dropout)
