"""The place of a demo in its sequence must not tell which label is asked, in any recipe's streams."""

import numpy as np
import pytest
import torch
from test_sampler import toy
from torch import Tensor

from autocl.data.sampler import StreamSampler
from autocl.data.stream_config import RandomStreamConfig, StreamConfig
from autocl.recipes import RECIPES, get_recipe

STEPS, STREAMS = 60, 64
LIMIT = 5.0
"""Standard errors. About 3,000 positions are looked at in all: by chance one is beyond it in 600 runs."""

CONFIGS: dict[str, StreamConfig | RandomStreamConfig] = {
    **{name: get_recipe(name).streams for name in RECIPES},
    "many queries": StreamConfig(tasks=3, ways=4, shots=2, queries=6, first_shot=True),
}


def excess(demo_labels: Tensor, query_labels: Tensor) -> Tensor:
    """How much more often than others a place shows the label of the first query: [streams, places]."""
    match = (demo_labels == query_labels[:, :1]).double()
    return match - match.mean(1, keepdim=True)


def worst_place(samples: list[Tensor]) -> float:
    """The place of a sequence that deviates most from the mean of all places, in standard errors."""
    together = torch.cat(samples)
    error = together.std(0) / len(together) ** 0.5
    return float((together.mean(0) / error.clamp(min=1e-12)).abs().max())


def test_the_statistic_finds_the_leak_it_is_made_for() -> None:
    rng = np.random.default_rng(0)
    labels = torch.from_numpy(rng.permuted(np.tile(np.arange(5), (2000, 1)), axis=1))
    assert worst_place([excess(labels, labels[:, :1])]) > 100
    other = torch.from_numpy(rng.integers(5, size=(2000, 1)))
    assert worst_place([excess(labels, other)]) < LIMIT


@pytest.mark.parametrize("name", CONFIGS)
def test_no_place_of_a_demo_predicts_the_query(name: str) -> None:
    config = CONFIGS[name]
    orders = {"alternate": 2, "rotate": 3}
    sets = orders.get(config.order, 1) if isinstance(config, StreamConfig) else config.sets_per_step
    images = max(config.images_per_class, config.pool_images)
    source = [toy(f"set{i}", classes=60, images=images) for i in range(sets)]
    sampler = StreamSampler(source, config, batch_size=STREAMS, seed=1)
    places: dict[tuple[int, int, str], list[Tensor]] = {}
    for step in range(STEPS):
        for number, task in enumerate(sampler.batch(step).tasks):
            key = (number, task.demo_labels.shape[1], "demos")
            places.setdefault(key, []).append(excess(task.demo_labels, task.query_labels))
            if task.one_shot_labels is not None:
                key = (number, task.one_shot_labels.shape[1], "1-shot")
                places.setdefault(key, []).append(excess(task.one_shot_labels, task.query_labels))
    assert {key: z for key, found in places.items() if (z := worst_place(found)) > LIMIT} == {}
