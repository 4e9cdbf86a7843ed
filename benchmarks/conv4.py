"""Conv-4, fused blocks against the plain nn.Sequential, side by side: `python -m benchmarks.conv4`."""

import argparse
import statistics
import time
from collections.abc import Callable

import torch

from autocl.encoders import Conv4


def medians(contestants: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Median seconds of each contestant, taking turns so that a busy machine slows all alike."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for round_number in range(rounds + 1):
        for name, run in contestants.items():
            start = time.perf_counter()
            run()
            if round_number:  # the first round compiles and warms up
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}


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
            took = medians(
                {
                    "plain": mode(encoder.blocks, x),
                    "channels last": mode(last.blocks, x_last),
                    "fused": mode(encoder, x),
                },
                arguments.rounds,
            )
            ratios = ", ".join(f"{k} {took['plain'] / v:.2f}×" for k, v in took.items() if k != "plain")
            print(f"n {n:4d}  {name:17s} plain {1e3 * took['plain']:8.2f} ms; against it: {ratios}")


if __name__ == "__main__":
    main()
