"""Streams small enough to learn in a moment: blurred dots, one place for each class."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from autocl.data.fixed import FixedStream
from autocl.data.imageset import ImageSet
from autocl.data.split import split_stream
from autocl.data.stream_config import Scenario

Streams = Callable[..., list[FixedStream]]


def dots(split: str, *, classes: int = 6, each: int = 24, seed: int = 0, size: int = 8) -> ImageSet:
    rng = np.random.default_rng(seed)
    centre = np.random.default_rng(99).integers(0, 256, (classes, 1, 1, size, size))
    noise = rng.normal(0, 20, (classes, each, 1, size, size))
    images = np.clip(centre + noise, 0, 255).astype(np.uint8).reshape(-1, 1, size, size)
    return ImageSet(
        name="dots",
        split=split,
        images=images,
        starts=np.arange(classes + 1) * each,
        classes=tuple(f"c{c}" for c in range(classes)),
        mean=(0.5,),
        std=(0.29,),
        hash=split,
        order=np.arange(classes * each) % each * classes + np.arange(classes * each) // each,
    )


@pytest.fixture(scope="session")
def streams() -> Streams:
    """streams(scenario, runs=2) -> that many runs of a 3-task 2-way stream."""
    train, test = dots("train"), dots("test", seed=1)

    def make(scenario: Scenario = "class", runs: int = 2, shots: int = 4) -> list[FixedStream]:
        return [split_stream(train, test, scenario=scenario, shots=shots, run=r) for r in range(runs)]

    return make


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)
