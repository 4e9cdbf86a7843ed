"""Conv-4, fused blocks against the plain nn.Sequential, side by side: `python -m benchmarks.conv4`."""

import argparse
from collections.abc import Callable

import torch
from benchmarks.training import take_turns

from autocl.encoders import Conv4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    print(f"torch {torch.__version__}, {arguments.threads} thread(s), float32 3×32×32, 32 filters")
    for n in (1, 16, 100, 400, 800):
        encoder = Conv4(channels=3, height=32, width=32)
        last = Conv4(channels=3, height=32, width=32).to(memory_format=torch.channels_last)
        x = torch.randn(n, 3, 32, 32)
        x_last = x.contiguous(memory_format=torch.channels_last)

        def forward(run: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> Callable[[], object]:
            return torch.no_grad()(lambda: run(x))

        def both(run: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> Callable[[], object]:
            return lambda: run(x).square().sum().backward()

        for name, mode in (("forward", forward), ("forward+backward", both)):
            times = take_turns(
                {
                    "plain": mode(encoder.blocks, x),
                    "channels last": mode(last.blocks, x_last),
                    "fused": mode(encoder, x),
                },
                arguments.rounds,
            )
            took = {k: t.clock for k, t in times.items()}
            ratios = ", ".join(f"{k} {took['plain'] / v:.2f}×" for k, v in took.items() if k != "plain")
            print(f"n {n:4d}  {name:17s} plain {1e3 * took['plain']:8.2f} ms; against it: {ratios}")


if __name__ == "__main__":
    main()
