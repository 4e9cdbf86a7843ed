"""A stack of conv → instance norm → max-pool → dropout → ReLU blocks, in cache-sized chunks of images.

Shape legend: n = images, C = input channels, F = filters, H, W = pixels, L = blocks.
"""

from collections.abc import Iterable
from functools import partial
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from autocl.ops.bfloat16 import numbers
from autocl.ops.conv_blocks import FILTERS, ONEDNN, BlockParameters, image, kernel
from autocl.ops.threads import in_threads

CHUNK_PIXELS = 32 * 32 * 32
"""Pixels that one convolution takes at once, for each thread: 32 images of 32×32, 128 of 16×16."""
SHARED = 4096
"""Steps of an image for `in_threads`: two are worth a second thread."""
EPS = 1e-5
"""Added to the variance; the default of `torch.nn.InstanceNorm2d`."""


def conv_blocks(
    x: Tensor, parameters: Iterable[BlockParameters], *, dropout: float, bf16: bool = False
) -> Tensor:
    """L blocks of conv 3×3 (padding 1) → instance norm → max-pool 2×2 → dropout → ReLU, on the CPU.

    Gradients reach x and all parameters and are exact, but cannot be differentiated again. That of a bias
    is zero, because the norm takes the bias away. Dropout draws 2L numbers from torch's generator.

    Args:
        x: [n, C, H, W], float32 or float64, n > 0, with at least 2^L rows and columns.
        parameters: of the L blocks.
        dropout: rate in [0, 1); 0 when not training.
        bf16: convolve in bfloat16, and keep images in it between the blocks; x is float32 then. Statistics
            of the norm, parameters, their gradients and what is returned are float32.

    Returns:
        [n, F, H // 2^L, W // 2^L], channels last in memory.

    Example:
        >>> w, zero, one = torch.randn(4, 1, 3, 3), torch.zeros(4), torch.ones(4)
        >>> conv_blocks(torch.randn(2, 1, 9, 8), [BlockParameters(w, zero, one, zero)], dropout=0.0).shape
        torch.Size([2, 4, 4, 4])
    """
    weights, biases, gammas, betas = zip(*parameters, strict=True)
    dtype = torch.bfloat16 if bf16 else x.dtype
    flat = (*(_channels_last(w.to(dtype)) for w in weights), *biases, *gammas, *betas)
    seeds = torch.randint(2**32, (len(weights), 2)) if dropout > 0 else torch.zeros(len(weights), 2)
    words = seeds.numpy().astype(np.uint32)
    out: Tensor = _Blocks.apply(x, dropout, words, *flat)  # type: ignore[no-untyped-call]
    return out


def infer(x: Tensor, parameters: Iterable[BlockParameters]) -> Tensor:
    """Features [n, F · pixels], in the order (filter, row, column), of `conv_blocks` without dropout.

    Nothing is kept for gradients.
    """
    blocks = list(parameters)
    if x.dtype == torch.float32 and len(blocks[0].gamma) % FILTERS == 0:
        arrays = tuple(tuple(p.detach().numpy() for p in (b.weight, b.gamma, b.beta)) for b in blocks)
        n, _, H, W = x.shape
        features = np.empty((n, len(blocks[0].gamma) * (H >> len(blocks)) * (W >> len(blocks))), np.float32)
        in_threads(partial(image.run, arrays, EPS), SHARED, x.detach().contiguous().numpy(), features)
        return torch.from_numpy(features)
    return conv_blocks(x, blocks, dropout=0.0).flatten(1)


class _Saved(NamedTuple):
    """Tensors of one block that the backward pass needs."""

    h: Tensor
    """[n, C or F, H, W], the block's input."""
    place: Tensor
    """uint8 [n, F, H // 2, W // 2]: which of the four pixels went through the pool and the ReLU, if any."""
    mean: Tensor
    """[n, F]."""
    rstd: Tensor
    """[n, F], one over the standard deviation."""


class _Blocks(torch.autograd.Function):
    """All blocks, each in chunks small enough that what the convolution writes the kernel finds in cache."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, dropout: float, words: npt.NDArray[np.uint32], *parameters: Tensor
    ) -> Tensor:
        depth = len(words)
        weights, _, gammas, betas = (parameters[i * depth : (i + 1) * depth] for i in range(4))
        h = _channels_last(x.to(weights[0].dtype))
        saved: list[Tensor] = []
        ys: list[Tensor] = []
        keeping = any(ctx.needs_input_grad)
        ctx.sizes = _chunk_sizes(x, depth)
        for block in range(depth):
            n, _, H, W = h.shape
            F = len(weights[block])
            out, place = (
                torch.empty(n, F, H // 2, W // 2, dtype=dtype, memory_format=torch.channels_last)
                for dtype in (h.dtype, torch.uint8)
            )
            mean, rstd = torch.empty(2, n, F, dtype=x.dtype)
            norm = (gammas[block].detach().numpy(), betas[block].detach().numpy(), EPS)
            for part in _chunks(slice(0, n), ctx.sizes[block]):
                y = _convolve(h[part], weights[block])
                run = partial(kernel.forward, part.start, *norm, dropout, words[block])
                images = map(_pixels, (y, out[part], place[part]))
                in_threads(run, H * W, *images, mean[part].numpy(), rstd[part].numpy())
                # The first block's y is most of the memory and, from few input channels, soon made again.
                if keeping and block:
                    ys.append(y)
            saved += _Saved(h, place, mean, rstd)
            h = out
        ctx.save_for_backward(*weights, *gammas, *saved, *ys)
        ctx.dropout, ctx.depth = dropout, depth
        return h.to(x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        depth, width = ctx.depth, len(_Saved._fields)
        tensors = iter(ctx.saved_tensors)
        weights, gammas = ([*islice(tensors, depth)] for _ in range(2))
        saved = [_Saved(*islice(tensors, width)) for _ in range(depth)]
        # Taken from the end of these lists: chunks are met in the opposite order.
        images = slice(0, len(grad_outputs[0]))
        ys = [[*islice(tensors, len(_chunks(images, size)) if b else 0)] for b, size in enumerate(ctx.sizes)]
        dx = torch.empty_like(saved[0].h) if ctx.needs_input_grad[0] else None
        dgammas, dbetas = ([torch.empty_like(s.mean) for s in saved] for _ in range(2))
        dweights = [torch.zeros_like(w, dtype=saved[0].mean.dtype) for w in weights]

        def back(block: int, within: slice, g: Tensor) -> None:
            """Through a block and all before it, for the images `within`, whose outputs have gradient g."""
            h, place, mean, rstd = saved[block]
            run = partial(kernel.backward, gammas[block].detach().numpy(), ctx.dropout)
            parts = _chunks(within, ctx.sizes[block])
            # One buffer for the gradients of all chunks: it stays in cache.
            shape = (parts[0].stop - parts[0].start, len(weights[block]), *h.shape[2:])
            buffer = torch.empty(shape, dtype=h.dtype, memory_format=torch.channels_last)
            for part in reversed(parts):
                y = ys[block].pop() if block else _convolve(h[part], weights[block])
                dy, dout = buffer[: len(y)], g[part.start - within.start : part.stop - within.start]
                statistics = (s[part].numpy() for s in (mean, rstd))
                sums = (s[block][part].numpy() for s in (dgammas, dbetas))
                arrays = (_pixels(y), _pixels(place[part]), *statistics, _pixels(dout), _pixels(dy), *sums)
                in_threads(run, dy[0, 0].numel(), *arrays)
                dh, dweight, _ = torch.ops.aten.convolution_backward(
                    dy, h[part], weights[block], None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1,
                    [block > 0 or dx is not None, True, False],
                )  # fmt: skip
                dweights[block] += dweight
                if block:
                    back(block - 1, part, _channels_last(dh))
                elif dx is not None:
                    dx[part] = dh

        grad = _channels_last(grad_outputs[0].to(weights[0].dtype))
        back(depth - 1, images, grad)
        dbiases = [torch.zeros_like(gamma) for gamma in gammas]
        sums = ([d.sum(0) for d in ds] for ds in (dgammas, dbetas))
        dx = None if dx is None else dx.to(grad_outputs[0].dtype)
        return (dx, None, None, *dweights, *dbiases, *chain(*sums))


def _chunk_sizes(x: Tensor, depth: int) -> list[int]:
    """Images that go together in each block.

    A block leaves at most a quarter of the pixels, and a chunk of it is whole chunks of the block before it.
    """
    first = max(1, torch.get_num_threads() * CHUNK_PIXELS // (x.shape[2] * x.shape[3]))
    return [first << 2 * block for block in range(depth)]


def _chunks(images: slice, size: int) -> list[slice]:
    """These images, so many at a time."""
    return [slice(lo, min(lo + size, images.stop)) for lo in range(images.start, images.stop, size)]


def _convolve(h: Tensor, weight: Tensor) -> Tensor:
    # torch takes oneDNN for two images but not for one, which it rounds differently then.
    if len(h) == 1 and h.dtype == torch.float32 and ONEDNN:
        return _channels_last(torch.mkldnn_convolution(h, weight, None, [1, 1], [1, 1], [1, 1], 1))
    return _channels_last(torch.conv2d(h, weight, padding=1))


def _channels_last(t: Tensor | None) -> Tensor:
    assert t is not None
    return t.contiguous(memory_format=torch.channels_last)


def _pixels(t: Tensor) -> npt.NDArray[Any]:
    """[n, F, H, W], channels last in memory, as a view [n, H, W, F]; bfloat16 as its bits."""
    return numbers(t.permute(0, 2, 3, 1))
