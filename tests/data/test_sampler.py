"""Streams of one shape: what may never happen, what must be equal, and the paper's orders."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from autocl.data.draw import sample_without_replacement
from autocl.data.imageset import FeatureSet, ImageSet, assert_disjoint
from autocl.data.sampler import StreamSampler
from autocl.data.stream import Stream
from autocl.data.stream_config import StreamConfig
from autocl.errors import DataError, InputError


def toy(name: str = "toy", classes: int = 12, images: int = 20, channels: int = 1, size: int = 4) -> ImageSet:
    """Each image holds its own row number, so that pixels tell which row they came from."""
    n = classes * images
    pixels = np.broadcast_to(np.arange(n)[:, None, None, None] % 256, (n, channels, size, size))
    return ImageSet(
        name=name,
        split="train",
        images=pixels.astype(np.uint8),
        starts=np.arange(classes + 1) * images,
        classes=tuple(f"{name}/{c}" for c in range(classes)),
        mean=(0.0,) * channels,
        std=(1.0,) * channels,
    )


def same(a: Stream, b: Stream) -> bool:
    """Equal as streams of images: the numbering of the pool does not matter."""
    fields = ("demos", "queries", "one_shot")
    return all(
        x.source == y.source
        and torch.equal(x.demo_labels, y.demo_labels)
        and torch.equal(x.query_labels, y.query_labels)
        and all(
            (getattr(x, f) is None and getattr(y, f) is None)
            or torch.equal(a.pool[getattr(x, f)], b.pool[getattr(y, f)])
            for f in fields
        )
        for x, y in zip(a.tasks, b.tasks, strict=True)
    )


configs = st.builds(
    StreamConfig,
    tasks=st.integers(1, 3),
    ways=st.integers(1, 4),
    shots=st.integers(1, 5),
    queries=st.integers(1, 9),
    scenario=st.sampled_from(["domain", "class"]),
    order=st.sampled_from(["rotate", "mixture"]),
    first_shot=st.booleans(),
    drawing=st.sampled_from(["pooled", "independent"]),
    pool_classes=st.just(12),
    pool_images=st.integers(15, 20),
)


@settings(max_examples=60, deadline=None)
@given(configs, st.integers(0, 99))
def test_streams__any_shape__show_and_ask_different_images_of_the_right_classes(
    config: StreamConfig, step: int
) -> None:
    batch = StreamSampler([toy("a"), toy("b")], config, batch_size=3, seed=1).batch(step)
    for b in range(3):
        used: list[int] = []
        label_of: dict[int, int] = {}
        for t, task in enumerate(batch.tasks):
            assert task.demos.shape == (3, config.ways * config.shots)
            assert task.queries.shape == (3, config.queries)
            parts = [(task.demos, task.demo_labels), (task.queries, task.query_labels)]
            if config.first_shot:
                assert task.one_shot is not None
                assert task.one_shot_labels is not None
                parts.append((task.one_shot, task.one_shot_labels))
            in_task: dict[int, int] = {}
            for images, labels in parts:
                used += images[b].tolist()
                for image, label in zip(images[b].tolist(), labels[b].tolist(), strict=True):
                    assert in_task.setdefault(int(batch.pool_classes[image]), label) == label
            assert len(in_task) == len(set(in_task.values())) == config.ways
            assert not in_task.keys() & label_of.keys()
            label_of |= in_task
            assert set(torch.bincount(task.demo_labels[b]).tolist()) - {0} == {config.shots}
            asked = torch.bincount(task.query_labels[b], minlength=batch.n_outputs)[sorted(in_task.values())]
            assert asked.max() - asked.min() <= 1
            if config.scenario == "domain":
                assert set(in_task.values()) == set(range(config.ways))
            else:
                assert {label // config.ways for label in in_task.values()} == {t}
        assert len(used) == len(set(used))
        if config.scenario == "class":
            assert sorted(label_of.values()) == list(range(batch.n_outputs))


@pytest.mark.parametrize("drawing", ["pooled", "independent"])
def test_batch__same_seed_and_step__is_the_same_whatever_was_asked_before(drawing: str) -> None:
    config = StreamConfig(ways=3, shots=2, drawing=drawing, pool_classes=12, first_shot=True)
    a, b = (StreamSampler([toy()], config, batch_size=8, seed=5) for _ in range(2))
    a.batch(0)
    assert same(a.batch(3), b.batch(3))
    assert not same(a.batch(3), a.batch(4))
    assert not same(a.batch(3), StreamSampler([toy()], config, batch_size=8, seed=6).batch(3))


@pytest.mark.parametrize("drawing", ["pooled", "independent"])
def test_batch__parts__together_are_the_whole(drawing: str) -> None:
    config = StreamConfig(ways=3, shots=2, drawing=drawing, pool_classes=12)
    sampler = StreamSampler([toy()], config, batch_size=7, seed=0)
    whole = sampler.batch(11)
    for lo, hi in [(0, 3), (3, 4), (4, 7)]:
        part = sampler.batch(11, lo, hi)
        expected = tuple(
            replace(
                t,
                demos=t.demos[lo:hi],
                demo_labels=t.demo_labels[lo:hi],
                queries=t.queries[lo:hi],
                query_labels=t.query_labels[lo:hi],
            )
            for t in whole.tasks
        )
        assert same(part, replace(whole, tasks=expected))
        if drawing == "pooled":
            assert torch.equal(part.pool, whole.pool)
        else:
            assert set(part.pool.tolist()) <= set(whole.pool.tolist())


def test_order__alternate__is_ab_at_even_and_ba_at_odd_steps() -> None:
    sampler = StreamSampler([toy("a"), toy("b")], StreamConfig(order="alternate", pool_classes=12), 2, 0)
    assert [[t.source for t in sampler.batch(s).tasks] for s in range(3)] == [[0, 1], [1, 0], [0, 1]]


def test_order__rotate__is_the_papers_three_of_six() -> None:
    sets = [toy("omniglot"), toy("mini"), toy("fc100")]
    sampler = StreamSampler(sets, StreamConfig(tasks=3, order="rotate", pool_classes=12), 2, 0)
    orders = ["".join("OMF"[t.source] for t in sampler.batch(s).tasks) for s in range(4)]
    assert orders == ["OMF", "FOM", "MFO", "OMF"]


def test_order__mixture__reaches_every_order() -> None:
    config = StreamConfig(tasks=3, ways=2, shots=1, order="mixture", pool_classes=12)
    sampler = StreamSampler([toy("a"), toy("b"), toy("c")], config, 1, 0)
    assert len({tuple(t.source for t in sampler.batch(s).tasks) for s in range(200)}) == 27


def test_shots__fewest_given__every_number_occurs_and_all_classes_have_it() -> None:
    config = StreamConfig(tasks=2, ways=3, shots=4, min_shots=2, queries=3, pool_classes=8)
    sampler, seen = StreamSampler([toy()], config, 2, seed=0), set()
    for step in range(30):
        for task in sampler.batch(step).tasks:
            counts = torch.stack([row.bincount(minlength=3) for row in task.demo_labels])
            assert counts.min() == counts.max()
            seen.add(int(counts[0, 0]))
    assert seen == {2, 3, 4}


@pytest.mark.parametrize("scenario", ["domain", "class"])
def test_tasks__fewest_given__every_number_occurs_and_labels_keep_their_blocks(scenario: str) -> None:
    config = StreamConfig(tasks=4, min_tasks=2, ways=2, shots=2, scenario=scenario, pool_classes=8)
    sampler, seen = StreamSampler([toy()], config, 3, seed=0), set()
    for step in range(30):
        tasks = sampler.batch(step).tasks
        seen.add(len(tasks))
        for t, task in enumerate(tasks):
            first = 2 * t if scenario == "class" else 0
            assert task.demo_labels.unique().tolist() == [first, first + 1]
    assert seen == {2, 3, 4}


@pytest.mark.parametrize("fewest", [0, 4])
def test_tasks__fewest_out_of_range__refused(fewest: int) -> None:
    with pytest.raises(InputError, match=r"min_tasks(=4 must lie in 1..tasks=3| must be at least 1, got 0)"):
        StreamConfig(tasks=3, min_tasks=fewest)


def test_pool__pooled__has_the_asked_size_and_its_classes() -> None:
    config = StreamConfig(order="alternate", ways=2, shots=3, pool_classes=6, pool_images=7)
    batch = StreamSampler([toy("a"), toy("b")], config, 4, 0).batch(0)
    assert len(batch.pool) == len(batch.pool.unique()) == 2 * 6 * 7
    classes, counts = batch.pool_classes.unique(return_counts=True)
    assert counts.tolist() == [7] * 12
    assert ((classes < 12).sum(), (classes >= 12).sum()) == (6, 6)
    assert torch.equal(batch.pool // 20, batch.pool_classes)


def test_pool__independent__holds_about_the_papers_number_of_images() -> None:
    config = StreamConfig(ways=2, shots=3, queries=2, first_shot=True, drawing="independent")
    batch = StreamSampler([toy(classes=2000)], config, 5, 0).batch(0)
    drawn = 5 * 2 * (2 * (3 + 1) + 2)
    assert drawn - 10 <= len(batch.pool) <= drawn


def test_classes__independent__repeat_between_tasks_of_a_stream() -> None:
    config = StreamConfig(tasks=2, ways=3, shots=1, queries=3, classes="independent", pool_classes=4)
    batch = StreamSampler([toy(classes=4)], config, 64, 0).batch(0)
    a, b = (batch.pool_classes[t.demos].sort().values for t in batch.tasks)
    assert all(len(set(row)) == 3 for row in a.tolist())
    assert (a == b).all(1).any()
    assert not (a == b).all()


def test_draw__many_streams__classes_labels_positions_and_images_are_uniform() -> None:
    config = StreamConfig(tasks=1, ways=3, shots=2, queries=1, drawing="independent")
    batch = StreamSampler([toy(classes=6, images=5)], config, 6000, 0).batch(0)
    task = batch.tasks[0]
    demos, labels = batch.pool[task.demos], task.demo_labels
    # Every count below is binomial with a mean of at least 1,200: five standard deviations are under 15 %.
    for values, kinds in [(demos, 30), (demos[:, 0], 30), (demos[:, -1] % 5, 5), (labels[:, 3], 3)]:
        counts = torch.bincount(values.reshape(-1), minlength=kinds).double()
        assert (counts / counts.mean() - 1).abs().max() < (0.15 if kinds < 30 else 0.4)
    joint = torch.bincount((demos // 5 * 3 + labels).reshape(-1), minlength=18).double()
    assert (joint / joint.mean() - 1).abs().max() < 0.15
    asked = torch.bincount(task.query_labels.reshape(-1)).double()
    assert (asked / asked.mean() - 1).abs().max() < 0.15


@pytest.mark.parametrize("rows", [1000, 20_000], ids=["sorted", "floyd"])
def test_sample_without_replacement__both_ways__give_every_ordered_draw_equally_often(rows: int) -> None:
    repeats = 20_000 // rows
    rng = np.random.default_rng(0)
    drawn = np.concatenate([sample_without_replacement(rng, np.full(rows, 4), 2) for _ in range(repeats)])
    counts = np.bincount(drawn[:, 0] * 4 + drawn[:, 1], minlength=16).reshape(4, 4)
    assert counts.diagonal().tolist() == [0] * 4
    # 12 outcomes, 1,667 expected of each: five standard deviations are 12 %.
    off = counts[~np.eye(4, dtype=bool)] / (20_000 / 12)
    assert np.abs(off - 1).max() < 0.12


@settings(max_examples=50, deadline=None)
@given(st.lists(st.sampled_from([1, 2, 7, 40, 20_000]), min_size=1, max_size=5), st.data())
def test_sample_without_replacement__any_n_and_k__stays_in_range(n: list[int], data: st.DataObject) -> None:
    k = data.draw(st.integers(0, min(*n, 40)))
    drawn = sample_without_replacement(np.random.default_rng(0), np.array(n), k)
    assert drawn.shape == (len(n), k)
    for top, row in zip(n, drawn.tolist(), strict=True):
        assert len(set(row)) == k
        assert all(0 <= value < top for value in row)


def test_images__two_sets__are_the_pools_rows_in_the_channels_of_the_richest() -> None:
    sets = [toy("gray"), toy("colour", channels=3)]
    for drawing in ("pooled", "independent"):
        config = StreamConfig(order="alternate", shots=2, drawing=drawing, pool_classes=12)
        # Enough streams to use every row, so that the first and last of each set are among them.
        sampler = StreamSampler(sets, config, 200, 0)
        batch = sampler.batch(1)
        x = sampler.images(batch)
        assert x.shape == (480, 3, 4, 4)
        rows = torch.where(batch.pool >= 240, batch.pool - 240, batch.pool)
        assert torch.allclose(x[:, 2, 0, 0] * 255, rows.float())


def test_images__augmented__depend_on_seed_and_step_alone() -> None:
    def noise(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        return torch.rand(x.shape, generator=generator)

    sampler = StreamSampler([toy()], StreamConfig(ways=2, pool_classes=12), 4, 0)
    one, again, part = sampler.batch(2), sampler.batch(2), sampler.batch(2, 1, 3)
    x = sampler.images(one, augment=[noise])
    assert torch.equal(x, sampler.images(again, augment=[noise]))
    assert torch.equal(x, sampler.images(part, augment=[noise]))
    assert not torch.equal(x, sampler.images(sampler.batch(3), augment=[noise]))


@pytest.mark.parametrize(
    ("sets", "config", "message"),
    [
        ([toy()], StreamConfig(order="alternate"), "draws from 2 image set"),
        ([toy(), toy("b")], StreamConfig(), "draws from 1 image set"),
        ([toy(), toy("b", size=5)], StreamConfig(order="rotate"), "toy/train 4×4, b/train 5×5"),
        ([toy()], StreamConfig(pool_classes=13), "toy/train has 12 classes"),
        ([toy()], StreamConfig(tasks=4, pool_classes=12), "pool_classes=12 is too few"),
        ([toy(images=9)], StreamConfig(drawing="independent"), "9 images of class 'toy/0'.*16 images"),
        ([toy()], StreamConfig(tasks=4, drawing="independent"), "12 classes, but streams need 20"),
    ],
)
def test_sampler__sets_that_cannot_serve__are_refused_by_name(
    sets: list[ImageSet], config: StreamConfig, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        StreamSampler(sets, config, batch_size=2, seed=0)


def test_config__impossible__is_refused_when_made() -> None:
    with pytest.raises(InputError, match="ways must be at least 1, got 0"):
        StreamConfig(ways=0)
    with pytest.raises(InputError, match="order='zigzag' is not known: choose one of single, alternate"):
        StreamConfig(order="zigzag")
    with pytest.raises(InputError, match="pool_images=10 is too few"):
        StreamConfig(pool_images=10)


def test_batch__parts_or_steps_outside__are_refused() -> None:
    sampler = StreamSampler([toy()], StreamConfig(ways=2, pool_classes=12), 4, 0)
    for lo, hi in [(0, 5), (2, 2), (-1, 2)]:
        with pytest.raises(InputError, match="not a part of the 4 streams"):
            sampler.batch(0, lo, hi)
    with pytest.raises(InputError, match="step must be at least 0"):
        sampler.batch(-1)


@pytest.mark.parametrize("name", ["omniglot", "mini_imagenet"])
def test_assert_disjoint__real_splits__share_no_class(name: str) -> None:
    from autocl.data import load

    try:
        splits = [load(name, split) for split in ("train", "val", "test")]
    except DataError as error:
        pytest.skip(str(error))
    assert_disjoint(*splits)
    with pytest.raises(DataError, match=f"{name}/train and {name}/train share {splits[0].n_classes} classes"):
        assert_disjoint(*splits, splits[0])


def test_assert_disjoint__shared_class__names_sets_and_class() -> None:
    assert_disjoint(toy("a"), toy("b"), toy("c"))
    with pytest.raises(DataError, match=r"a/train and a/train share 3 classes \(a/0, a/1, a/2\)"):
        assert_disjoint(toy("a"), toy("b"), toy("a", classes=3))


def vectors(name: str, length: int = 6, classes: int = 12, images: int = 20) -> FeatureSet:
    n = classes * images
    values = np.random.default_rng(len(name)).normal(size=(n, length)).astype(np.float32)
    names = tuple(f"{name}/{c}" for c in range(classes))
    starts = np.arange(classes + 1) * images
    return FeatureSet(name=name, split="train", classes=names, starts=starts, features=values)


def test_sampler__vectors__draws_the_streams_that_images_would_have() -> None:
    config = StreamConfig(tasks=2, ways=3, shots=4, queries=3, order="alternate", pool_classes=8)
    sets = [vectors("a"), vectors("bb")]
    sampler = StreamSampler(sets, config, batch_size=3, seed=0)
    pictures = StreamSampler([toy("a"), toy("bb")], config, batch_size=3, seed=0)
    batch = sampler.batch(1)
    assert torch.equal(batch.pool, pictures.batch(1).pool)
    assert torch.equal(batch.tasks[1].demos, pictures.batch(1).tasks[1].demos)
    everything = np.concatenate([s.features for s in sets])
    x = sampler.images(batch)
    assert x.shape[2:] == (1, 1)
    np.testing.assert_array_equal(x[..., 0, 0].numpy(), everything[batch.pool.numpy()])


def test_sampler__vectors_of_another_length_or_images_beside_them__are_refused() -> None:
    config = StreamConfig(order="rotate", pool_classes=8, ways=2, pool_images=20)
    for others in ([vectors("b", length=7)], [toy()]):
        with pytest.raises(InputError, match="must have one size, got a/train 6,"):
            StreamSampler([vectors("a"), *others], config, 1, 0)


def test_sampler__standardise_image__every_image_by_itself() -> None:
    config = StreamConfig(tasks=2, ways=2, shots=4, pool_classes=8)
    pixels = np.random.default_rng(0).integers(0, 256, (240, 3, 4, 4), dtype=np.uint8)
    images = replace(toy(channels=3), images=pixels, mean=(0.4,) * 3, std=(0.2,) * 3)
    sampler = StreamSampler([images], config, batch_size=2, seed=0)
    batch = sampler.batch(0)
    x = sampler.images(batch, standardise="image")
    torch.testing.assert_close(x.mean(dim=(1, 2, 3)), torch.zeros(len(x)), atol=1e-5, rtol=0)
    torch.testing.assert_close(x.std(dim=(1, 2, 3), correction=0), torch.ones(len(x)), atol=1e-5, rtol=0)
    as_set = sampler.images(batch)
    assert torch.equal(as_set, sampler.images(batch, standardise="set"))
    assert torch.equal(as_set, images.take(batch.pool))
    with pytest.raises(InputError, match="'both' is not known"):
        sampler.images(batch, standardise="both")  # type: ignore[arg-type]
