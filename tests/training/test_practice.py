"""Streams that the universal read-out practises on: sets of classes that are made hard, and what stays."""

import numpy as np
import pytest
from tools.train_universal import Floats, alike, nuisance


def classes_of(number: int, images: int, seed: int = 0) -> list[Floats]:
    """Classes far apart that scatter a hundred times as much along one dimension as along another."""
    rng = np.random.default_rng(seed)
    scale = np.array([10.0, 0.1, 1.0, 1.0])
    found = [50 * rng.standard_normal(4) + scale * rng.standard_normal((images, 4)) for _ in range(number)]
    return [c.astype(np.float32) for c in found]


@pytest.mark.parametrize("seed", range(5))
def test_classes_made_alike_differ_as_images_of_one_class_do(seed: int) -> None:
    before = classes_of(20, 60)
    made = alike(before, np.random.default_rng(seed))
    assert len(made) == 40
    assert all(len(c) == 30 for c in made)
    within = np.concatenate([c - c.mean(0) for c in before]).std(0)
    # Means of up to 32 images, and the noise of the 30 that stand around each.
    assert (np.std([c.mean(0) for c in made], 0) < 1.5 * within).all()
    assert (np.std([c.mean(0) for c in made], 0) > within / 8).all()
    np.testing.assert_allclose(np.concatenate([c - c.mean(0) for c in made]).std(0), within, rtol=0.1)


def test_a_set_too_small_to_be_made_alike_stays() -> None:
    few = classes_of(2, 10)
    assert alike(few, np.random.default_rng(0)) is few


def test_nuisance_lies_in_so_many_directions_and_leaves_the_rest() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((200, 30)).astype(np.float32)
    added = nuisance(x, 3.0, 2, rng) - x
    spectrum = np.linalg.svd(added, compute_uv=False)
    assert spectrum[2] < 1e-4 * spectrum[0]
    assert spectrum[1] > 0.1 * spectrum[0]
