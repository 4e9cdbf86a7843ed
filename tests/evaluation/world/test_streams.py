"""The world table's streams: what each kind promises, and that nothing else has a part in the draw."""

import numpy as np
import pytest

from autocl.data.imageset import FeatureSet
from autocl.evaluation.world.streams import KINDS, NOVEL, NOVELTY, Kind, Passage, cells, draw_rows, fits


def numbered(classes: int, images: int) -> FeatureSet:
    """Features that tell their class and their row: [class, row]."""
    rows = np.arange(classes * images)
    features = np.stack([rows // images, rows], axis=1).astype(np.float32)
    starts = np.arange(0, len(rows) + 1, images)
    names = tuple(f"c{i}" for i in range(classes))
    return FeatureSet(name="n", split="all", features=features, starts=starts, classes=names)


def one(kind: Kind, classes: int = 60, images: int = 50) -> Passage:
    return next(cells({"n": numbered(classes, images)}, draws=1, kinds=(kind,)))


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.name)
def test_demos_and_queries_are_different_images_of_the_same_classes(kind: Kind) -> None:
    _, x, y, ends, queries, answers = one(kind)
    assert not set(x[:, 1]) & set(queries[:, 1])
    assert len(set(x[:, 1])) == len(x) == len(y) == ends[-1]
    assert set(x[:, 0]) == set(queries[:, 0])
    assert len(set(x[:, 0])) == kind.n_classes
    assert set(y) == set(answers) == set(range(kind.n_labels))
    assert len(ends) == kind.tasks
    assert len(answers) <= 400
    if kind.twist != "wrong labels":
        # a class has one label, and queries about it have the same
        label = {c: set(y[x[:, 0] == c]) for c in set(x[:, 0])}
        assert all(label[c] == {a} for c, a in zip(queries[:, 0], answers, strict=True))


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.name)
def test_every_task_shows_its_own_classes(kind: Kind) -> None:
    _, x, _, ends, _, _ = one(kind)
    shown = [set(part) for part in np.split(x[:, 0], ends[:-1])]
    common = set.intersection(shown[0], shown[-1])
    assert len(common) == (1 if kind.twist == "returning class" else 0)
    assert [len(s) for s in shown[:-1]] == [2] * (kind.tasks - 1)


def test_one_class_comes_back_with_the_other_half_of_its_demos() -> None:
    _, x, _, ends, _, _ = one(KINDS[14])
    (back,) = set(x[: ends[0], 0]) & set(x[ends[-2] :, 0])
    of_class = x[:, 0] == back
    assert of_class[: ends[0]].sum() == 8
    assert of_class[ends[-2] :].sum() == 7


def test_a_tenth_of_the_labels_is_wrong_and_of_the_same_task() -> None:
    _, x, y, ends, _, _ = one(KINDS[13])
    for task, (a, b) in enumerate(zip([0, *ends], ends, strict=False)):
        assert set(y[a:b]) == {2 * task, 2 * task + 1}
        right = {c: np.bincount(y[a:b][x[a:b, 0] == c]).argmax() for c in set(x[a:b, 0])}
        assert sum(right[c] != label for c, label in zip(x[a:b, 0], y[a:b], strict=True)) == 3


@pytest.mark.parametrize(("images", "most"), [(50, 30), (20, 15)])
def test_unequal_shots_go_from_one_to_thirty_or_as_far_as_the_images(images: int, most: int) -> None:
    _, x, _, _, _, _ = one(KINDS[12], images=images)
    counts = np.unique(x[:, 0], return_counts=True)[1]
    assert (counts.min(), counts.max()) == (1, most)


def test_half_of_the_queries_of_novelty_are_of_classes_never_shown() -> None:
    _, x, _, _, queries, answers = one(NOVELTY)
    strange = answers == NOVEL
    assert strange.sum() == (~strange).sum() > 0
    assert not set(queries[strange, 0]) & set(x[:, 0])
    assert set(queries[~strange, 0]) == set(x[:, 0])


def test_a_draw_depends_on_neither_features_nor_the_other_cells() -> None:
    small, kinds = numbered(12, 30), KINDS[:3]
    other = FeatureSet(
        name="n", split="all", features=-small.features, starts=small.starts, classes=small.classes
    )
    everything = list(cells({"a": small, "b": small}, draws=3))
    some = list(cells({"b": other}, draws=2, kinds=kinds))
    assert len(some) == 6
    for mine in some:
        assert any(
            mine.cell == theirs.cell
            and np.array_equal(-mine.x, theirs.x)
            and np.array_equal(-mine.queries, theirs.queries)
            for theirs in everything
        )
    draws = [p for p in everything if p.cell == everything[0].cell]
    assert not np.array_equal(draws[0].x, draws[1].x)


def test_sets_with_too_few_classes_or_images_are_passed_over() -> None:
    small = numbered(10, 12)
    assert [k.name for k in KINDS if fits(small, k)] == [
        "class 5x2, 1 shot", "class 5x2, 5 shots", "domain 5x2, 1 shot", "domain 5x2, 5 shots"
    ]  # fmt: skip
    assert not fits(numbered(6, 30), NOVELTY)


def test_classes_with_too_few_images_are_not_drawn() -> None:
    starts = np.array([0, 3, *range(33, 33 + 30 * 10, 30)])
    features = np.zeros((starts[-1], 1), np.float32)
    uneven = FeatureSet(name="u", split="all", features=features, starts=starts, classes=tuple("abcdefghijk"))
    drawn = draw_rows(uneven, KINDS[2], np.random.default_rng(0))
    assert drawn.demos.min() >= 3


@pytest.mark.parametrize("kind", [*KINDS[:3], *KINDS[12:15], NOVELTY], ids=lambda k: k.name)
def test_all_draws_of_a_cell_have_equally_many_demos_and_queries(kind: Kind) -> None:
    starts = np.cumsum([0, *range(25, 50)])
    features = np.zeros((starts[-1], 1), np.float32)
    names = tuple(f"c{i}" for i in range(25))
    uneven = FeatureSet(name="u", split="all", features=features, starts=starts, classes=names)
    shapes = {(p.x.shape, p.queries.shape) for p in cells({"u": uneven}, draws=6, kinds=(kind,))}
    assert len(shapes) == 1
