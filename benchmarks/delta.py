"""The delta rule: numba kernel and recomputing loop against the definition: `python -m benchmarks.delta`."""

import argparse

import torch
from benchmarks.training import take_turns

from autocl.ops.delta import delta

BACKENDS = ("naive", "recompute", "cpu")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    print(f"torch {torch.__version__}, {arguments.threads} thread(s), float32; shapes are (B, H, T, D)")
    for shape in ((1, 16, 1, 16), (16, 16, 150, 16), (16, 8, 150, 32)):
        B, H, T, D = shape
        q, k = torch.randn(2, B, H, T, D).softmax(-1)
        inputs = [q, k, torch.randn(B, H, T, D), torch.rand(B, H, T), torch.zeros(B, H, D, D)]

        def forward(backend: str, inputs: list[torch.Tensor] = inputs) -> None:
            delta(*inputs, backend=backend)

        def both(backend: str, inputs: list[torch.Tensor] = inputs) -> None:
            leaves = [x.detach().requires_grad_() for x in inputs]
            y, W = delta(*leaves, backend=backend)
            (y.sum() + W.sum()).backward()

        for name, run in (("forward", forward), ("forward+backward", both)):
            times = take_turns({b: lambda b=b, run=run: run(b) for b in BACKENDS}, arguments.rounds)
            took = {b: t.clock for b, t in times.items()}
            ratios = ", ".join(f"{b} {took['naive'] / took[b]:.1f}×" for b in BACKENDS[1:])
            print(f"{shape!s:18s} {name:17s} naive {1e3 * took['naive']:8.2f} ms; against it: {ratios}")


if __name__ == "__main__":
    main()
