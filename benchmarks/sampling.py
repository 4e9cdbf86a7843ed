"""What drawing a batch of streams costs, beside the smallest part of a training step it feeds.

Run: python -m benchmarks.sampling [--rounds 50]

The batch is the paper's two-task one: 32 streams × 2 tasks × 5 ways × 15 shots, from a set the size of
Omniglot with rotations (4,112 × 20) and one the size of mini-ImageNet (64 × 600). Only shapes matter, so the
pixels are noise. The step it is compared with is our Conv-4, forward and backward, over the images of the
batch: a real step also runs the recurrence, so the true share is smaller than the one printed.
"""

import argparse
import time
from collections.abc import Callable
from statistics import median

import numpy as np
import torch

from autocl.data.imageset import ImageSet
from autocl.data.sampler import StreamSampler
from autocl.data.stream_config import RandomStreamConfig, StreamConfig
from autocl.encoders import EncoderConfig, build_encoder


def noise_set(name: str, classes: int, images: int, channels: int) -> ImageSet:
    pixels = np.random.default_rng(0).integers(256, size=(classes * images, channels, 32, 32), dtype=np.uint8)
    return ImageSet(
        name=name,
        split="noise",
        images=pixels,
        starts=np.arange(classes + 1) * images,
        classes=tuple(f"{name}/{c}" for c in range(classes)),
        mean=(0.5,) * channels,
        std=(0.5,) * channels,
    )


def clock(work: Callable[[int], object], rounds: int) -> float:
    """Median milliseconds of work(round), after one round to warm up."""
    work(0)
    times = []
    for r in range(1, rounds + 1):
        start = time.perf_counter()
        work(r)
        times.append(1e3 * (time.perf_counter() - start))
    return median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=50, help="batches drawn per figure")
    rounds = parser.parse_args().rounds
    sets = [noise_set("strokes", 4112, 20, 1), noise_set("photos", 64, 600, 3)]
    encoder = build_encoder(EncoderConfig(), channels=3, height=32, width=32)
    configs: dict[str, StreamConfig | RandomStreamConfig] = {
        "paper: independent, 1 query": StreamConfig(
            order="alternate", drawing="independent", queries=1, first_shot=True
        ),
        "pooled 40 × 20, 25 queries": StreamConfig(order="alternate", queries=25),
        "random shapes, pooled": RandomStreamConfig(),
    }
    print(f"{'32 streams':<30}{'indices':>10}{'pixels':>10}{'Conv-4':>11}{'images':>9}  indices / Conv-4")
    for name, config in configs.items():
        sampler = StreamSampler(sets, config, batch_size=32, seed=0)
        indices = clock(sampler.batch, rounds)
        batch = sampler.batch(0)
        pixels = clock(lambda _, s=sampler, b=batch: s.images(b), max(3, rounds // 10))  # type: ignore[misc]
        x = sampler.images(batch, channels=3)
        encode = clock(lambda _, x=x: encoder(x).sum().backward(), 3)  # type: ignore[misc]
        times = f"{indices:>7.2f} ms{pixels:>7.1f} ms{encode:>8.0f} ms"
        print(f"{name:<30}{times}{len(x):>9}  {indices / encode:.2%}")
    print(f"(PyTorch {torch.__version__}, {torch.get_num_threads()} threads)")


if __name__ == "__main__":
    main()
