"""How the kernel cases compare a Triton op with its definition."""

from collections.abc import Callable

import torch
from torch import Tensor

from autocl.ops.triton_support import INTERPRETED

DEVICE = "cpu" if INTERPRETED else "cuda"
TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-11}
Recurrence = Callable[..., tuple[Tensor, Tensor]]


def results(run: Recurrence, *inputs: Tensor, parts: str = "y and W") -> dict[str, Tensor]:
    """Outputs, and every input's gradient of a random linear function of the named outputs."""
    y, W_final = run(*inputs)
    generator = torch.Generator().manual_seed(9)
    loss = torch.zeros((), dtype=y.dtype, device=y.device)
    for name, output in (("y", y), ("W", W_final)):
        weights = torch.randn(output.shape, generator=generator, dtype=y.dtype).to(DEVICE)
        if name in parts.split():
            loss = loss + (weights * output).sum()
    gradients = torch.autograd.grad(loss, inputs)
    named = {f"gradient of input {i}": gradient for i, gradient in enumerate(gradients)}
    return {"y": y, "final W": W_final} | named


def assert_same(actual: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    """Largest error relative to the largest value of each tensor, so that one bound fits them all."""
    for name, reference in expected.items():
        error = (actual[name] - reference).abs().max() / reference.abs().max().clamp_min(1e-6)
        assert error < TOLERANCE[reference.dtype], f"{name} is off by {error:.2e}"
