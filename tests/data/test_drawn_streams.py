"""Streams of random shape: the promises of `RandomStreamConfig`, and that the variety it promises occurs."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from autocl.data.imageset import ImageSet
from autocl.data.sampler import StreamSampler
from autocl.data.stream_config import RandomStreamConfig
from autocl.errors import InputError


def toy(name: str, classes: int = 20, images: int = 20) -> ImageSet:
    return ImageSet(
        name=name,
        split="train",
        images=np.zeros((classes * images, 1, 2, 2), np.uint8),
        starts=np.arange(classes + 1) * images,
        classes=tuple(f"{name}/{c}" for c in range(classes)),
        mean=(0.5,),
        std=(0.5,),
    )


SETS = [toy("a"), toy("b"), toy("c")]

configs = st.builds(
    RandomStreamConfig,
    max_tasks=st.integers(1, 8),
    max_ways=st.integers(1, 5),
    max_shots=st.integers(1, 15),
    queries=st.integers(1, 12),
    query_images=st.integers(1, 5),
    n_outputs=st.integers(8, 20),
    return_chance=st.sampled_from([0.0, 0.5, 1.0]),
    interleave_chance=st.sampled_from([0.0, 0.5, 1.0]),
    sets_per_step=st.integers(1, 3),
    mix_chance=st.sampled_from([0.0, 1.0]),
    drawing=st.sampled_from(["pooled", "independent"]),
    pool_classes=st.just(20),
)


@settings(max_examples=100, deadline=None)
@given(configs, st.integers(0, 999))
def test_streams__any_config__keep_every_promise(config: RandomStreamConfig, step: int) -> None:
    batch = StreamSampler(SETS, config, batch_size=4, seed=0).batch(step)
    assert 1 <= len(batch.tasks) <= config.max_tasks
    assert batch.n_outputs == config.n_outputs
    for b in range(4):
        label_of: dict[int, int] = {}
        shown: set[int] = set()
        asked: set[int] = set()
        for task in batch.tasks:
            demo_classes = batch.pool_classes[task.demos[b]].tolist()
            for c, label in zip(demo_classes, task.demo_labels[b].tolist(), strict=True):
                # A class not met before gets the next label: order of appearance, one label a class.
                assert label_of.setdefault(c, len(label_of)) == label
            assert task.queries.shape == (4, config.queries)
            query_classes = batch.pool_classes[task.queries[b]].tolist()
            assert set(query_classes) <= set(demo_classes)
            assert [label_of[c] for c in query_classes] == task.query_labels[b].tolist()
            asks = [query_classes.count(c) for c in set(demo_classes)]
            assert max(asks) - min(asks) <= 1
            if config.interleave_chance == 0:
                shots = [demo_classes.count(c) for c in set(demo_classes)]
                assert max(shots) <= config.max_shots
                assert len(shots) <= config.max_ways
            shown |= set(task.demos[b].tolist())
            asked |= set(task.queries[b].tolist())
        assert not shown & asked
        assert len(label_of) <= config.n_outputs
        if config.return_chance == 0 and config.interleave_chance == 0:
            counts = sum(len(set(batch.pool_classes[t.demos[b]].tolist())) for t in batch.tasks)
            assert counts == len(label_of)
        if config.mix_chance == 0:
            assert len({c // 20 for c in label_of}) == 1


def test_shapes__shared_labels__go_round_in_order_of_appearance() -> None:
    config = RandomStreamConfig(share_chance=0.5, pool_classes=20)
    sampler = StreamSampler(SETS, config, batch_size=16, seed=0)
    rounds = set()
    for step in range(40):
        batch = sampler.batch(step)
        for b in range(16):
            label_of: dict[int, int] = {}
            for task in batch.tasks:
                for at, said in ((task.demos, task.demo_labels), (task.queries, task.query_labels)):
                    for c, label in zip(batch.pool_classes[at[b]].tolist(), said[b].tolist(), strict=True):
                        assert label_of.setdefault(c, label) == label
            labels, n = list(label_of.values()), len(set(label_of.values()))
            assert labels == [i % n for i in range(len(labels))]
            rounds.add(n if n < len(labels) else 0)
    assert rounds == {0, 2, 3, 4, 5}


def test_batch__parts__together_are_the_whole() -> None:
    for drawing in ("pooled", "independent"):
        config = RandomStreamConfig(sets_per_step=2, drawing=drawing, pool_classes=20)
        sampler = StreamSampler(SETS, config, batch_size=6, seed=3)
        whole, parts = sampler.batch(5), [sampler.batch(5, 0, 2), sampler.batch(5, 2, 6)]
        for m, task in enumerate(whole.tasks):
            assert torch.equal(whole.pool[task.demos], torch.cat([p.pool[p.tasks[m].demos] for p in parts]))
            assert torch.equal(task.query_labels, torch.cat([p.tasks[m].query_labels for p in parts]))


def test_shapes__many_steps__show_the_variety_they_promise() -> None:
    sampler = StreamSampler(SETS, RandomStreamConfig(pool_classes=20), batch_size=8, seed=0)
    tasks, ways, shots, returns, sources, outputs = set(), set(), set(), 0, set(), set()
    for step in range(150):
        batch = sampler.batch(step)
        tasks.add(len(batch.tasks))
        sources.add(batch.tasks[0].source)
        for b in range(8):
            met: set[int] = set()
            for task in batch.tasks:
                counts = torch.bincount(task.demo_labels[b])
                here = set(counts.nonzero()[:, 0].tolist())
                ways.add(len(here))
                shots |= set(counts[counts > 0].tolist())
                returns += bool(here & met)
                met |= here
            outputs.add(len(met))
    assert tasks == set(range(1, 9))
    assert ways >= set(range(1, 6))
    assert shots >= set(range(1, 16))
    assert sources == {0, 1, 2}
    assert outputs == set(range(1, 21))
    assert returns > 500


def test_shapes__interleaved__mix_neighbouring_tasks() -> None:
    def split_classes(chance: float) -> int:
        config = RandomStreamConfig(interleave_chance=chance, return_chance=0.0, pool_classes=20)
        sampler = StreamSampler(SETS[:1], config, batch_size=8, seed=0)
        found = 0
        for step in range(20):
            tasks = sampler.batch(step).tasks
            for b in range(8):
                labels = [set(t.demo_labels[b].tolist()) for t in tasks]
                found += sum(bool(p & q) for p, q in pairwise(labels))
        return found

    assert split_classes(0.0) == 0
    assert split_classes(0.3) > 50


def test_shapes__two_sets_a_step__say_so_and_mix_within_streams() -> None:
    config = RandomStreamConfig(sets_per_step=2, mix_chance=1.0, pool_classes=20)
    sampler = StreamSampler(SETS, config, batch_size=8, seed=0)
    batch = next(b for b in map(sampler.batch, range(50)) if len(b.tasks) > 4)
    assert {t.source for t in batch.tasks} == {-1}
    assert len(batch.pool) == 2 * 20 * 20
    origins = torch.cat([batch.pool_classes[t.demos] // 20 for t in batch.tasks], dim=1)
    assert all(len(set(row)) == 2 for row in origins.tolist())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RandomStreamConfig(max_tasks=9, n_outputs=8), "n_outputs=8 is too few"),
        (lambda: RandomStreamConfig(mix_chance=1.5), r"mix_chance must be in \[0, 1\], got 1.5"),
        (lambda: RandomStreamConfig(share_chance=-0.5), r"share_chance must be in \[0, 1\], got -0.5"),
        (lambda: RandomStreamConfig(pool_images=19), "pool_images=19 is too few"),
        (lambda: RandomStreamConfig(max_shots=0), "max_shots must be at least 1, got 0"),
        (lambda: StreamSampler(SETS, RandomStreamConfig(sets_per_step=4), 1, 0), "got 3"),
        (lambda: StreamSampler(SETS, RandomStreamConfig(), 1, 0), "a/train has 20 classes"),
    ],
)
def test_shapes__impossible__are_refused_with_the_reason(make, message) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match=message):
        make()
