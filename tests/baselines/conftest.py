"""Streams small enough to learn in a moment."""

import pytest
import torch
from dot_images import Streams, dots

from autocl.data.eval_streams import split_stream
from autocl.data.stream import Stream
from autocl.data.stream_config import Scenario


@pytest.fixture(scope="session")
def streams() -> Streams:
    """streams(scenario, runs=2) -> that many runs of a 3-task 2-way stream."""
    train, test = dots("train"), dots("test", seed=1)

    def make(scenario: Scenario = "class", runs: int = 2, shots: int = 4) -> list[Stream]:
        return [split_stream(train, test, scenario=scenario, shots=shots, run=r) for r in range(runs)]

    return make


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)
