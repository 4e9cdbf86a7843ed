"""A stack of conv → instance norm → max-pool → dropout → ReLU blocks, in cache-sized chunks of images.

Shape legend: n = images, C = input channels, F = filters, H, W = pixels, L = blocks.
"""

from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from autocl.ops.conv_blocks import BlockParameters, kernel
from autocl.ops.threads import in_threads

CHUNK_PIXELS = 32 * 32 * 32
"""Input pixels per chunk and thread: 32 images of 32×32. The fastest of 8, 16 and 32, see README.md."""
EPS = 1e-5
"""Added to the variance; the default of `torch.nn.InstanceNorm2d`."""


def conv_blocks(x: Tensor, parameters: Iterable[BlockParameters], *, dropout: float) -> Tensor:
    """L blocks of conv 3×3 (padding 1) → instance norm → max-pool 2×2 → dropout → ReLU, on the CPU.

    Gradients reach x and all parameters and are exact, but cannot be differentiated again. That of a bias
    is zero, because the norm takes the bias away. Dropout draws L numbers from torch's generator.

    Args:
        x: [n, C, H, W], float32 or float64, n > 0, with at least 2^L rows and columns.
        parameters: of the L blocks.
        dropout: rate in [0, 1); 0 when not training.

    Returns:
        [n, F, H // 2^L, W // 2^L], channels last in memory.

    Example:
        >>> w, zero, one = torch.randn(4, 1, 3, 3), torch.zeros(4), torch.ones(4)
        >>> conv_blocks(torch.randn(2, 1, 9, 8), [BlockParameters(w, zero, one, zero)], dropout=0.0).shape
        torch.Size([2, 4, 4, 4])
    """
    weights, biases, gammas, betas = zip(*parameters, strict=True)
    flat = (*map(_channels_last, weights), *biases, *gammas, *betas)
    seeds = torch.randint(2**62, (len(weights),)).tolist() if dropout > 0 else [0] * len(weights)
    size = max(1, torch.get_num_threads() * CHUNK_PIXELS // (x.shape[-2] * x.shape[-1]))
    chunks = [
        _Chunk.apply(chunk, number * size, dropout, seeds, *flat)  # type: ignore[no-untyped-call]
        for number, chunk in enumerate(torch.split(x, size))
    ]
    return torch.cat(chunks)


class _Saved(NamedTuple):
    """Tensors of one block that the backward pass needs."""

    h: Tensor
    """[n, C or F, H, W], the block's input."""
    y: Tensor
    """[n, F, H, W], the convolution's output."""
    place: Tensor
    """uint8 [n, F, H // 2, W // 2]: which of the four pixels went through the pool and the ReLU, if any."""
    mean: Tensor
    """[n, F]."""
    rstd: Tensor
    """[n, F], one over the standard deviation."""


class _Chunk(torch.autograd.Function):
    """All blocks on a chunk small enough that what one operation writes the next finds in cache."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, first: int, dropout: float, seeds: list[int], *parameters: Tensor
    ) -> Tensor:
        depth = len(seeds)
        weights, _, gammas, betas = (parameters[i * depth : (i + 1) * depth] for i in range(4))
        h = _channels_last(x)
        saved: list[Tensor] = []
        for block, seed in enumerate(seeds):
            y = _convolve(h, weights[block])
            n, F, H, W = y.shape
            pooled = (n, F, H // 2, W // 2)
            out = torch.empty(pooled, dtype=y.dtype, memory_format=torch.channels_last)
            place = torch.empty(pooled, dtype=torch.uint8, memory_format=torch.channels_last)
            mean, rstd = y.new_empty(n, F), y.new_empty(n, F)
            norm = (gammas[block].detach().numpy(), betas[block].detach().numpy(), EPS)
            run = partial(kernel.forward, first, *norm, dropout, np.uint64(seed))
            in_threads(run, H * W, *map(_pixels, (y, out, place)), mean.numpy(), rstd.numpy())
            # The first block's y is most of the memory and, from few input channels, soon made again.
            saved += _Saved(h, y if block else y.new_empty(0), place, mean, rstd)
            h = out
        ctx.save_for_backward(*weights, *gammas, *saved)
        ctx.dropout, ctx.depth = dropout, depth
        return h

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        depth = ctx.depth
        weights, gammas = ctx.saved_tensors[:depth], ctx.saved_tensors[depth : 2 * depth]
        saved = ctx.saved_tensors[2 * depth :]
        width = len(_Saved._fields)
        dweights: list[Tensor] = []
        dgammas: list[Tensor] = []
        dbetas: list[Tensor] = []
        g: Tensor | None = grad_outputs[0]
        for block in reversed(range(depth)):
            h, y, place, mean, rstd = _Saved(*saved[block * width : (block + 1) * width])
            # The kernel turns y into its gradient in place, so a kept one is copied: backward may run twice.
            dy = y.clone() if block else _convolve(h, weights[block])
            dgamma, dbeta = torch.empty_like(mean), torch.empty_like(mean)
            run = partial(kernel.backward, gammas[block].detach().numpy(), ctx.dropout)
            images = (_pixels(dy), _pixels(place), mean.numpy(), rstd.numpy(), _pixels(_channels_last(g)))
            in_threads(run, dy[0, 0].numel(), *images, dgamma.numpy(), dbeta.numpy())
            wanted = [block > 0 or ctx.needs_input_grad[0], True, False]
            g, dweight, _ = torch.ops.aten.convolution_backward(
                dy, h, weights[block], None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, wanted
            )
            dweights.append(dweight)
            dgammas.append(dgamma.sum(0))
            dbetas.append(dbeta.sum(0))
        dbiases = [torch.zeros_like(dbeta) for dbeta in dbetas]
        gradients = (dweights, dbiases, dgammas, dbetas)
        return (g, None, None, None, *(gradient for kind in gradients for gradient in reversed(kind)))


def _convolve(h: Tensor, weight: Tensor) -> Tensor:
    return _channels_last(torch.conv2d(h, weight, padding=1))


def _channels_last(t: Tensor | None) -> Tensor:
    assert t is not None
    return t.contiguous(memory_format=torch.channels_last)


def _pixels(t: Tensor) -> npt.NDArray[Any]:
    """[n, F, H, W], channels last in memory, as a view [n, H, W, F]."""
    return t.permute(0, 2, 3, 1).numpy()
