"""Samplers of training and validation streams, made from the names in a recipe."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from autocl.data import ImageSet, from_folder, load
from autocl.data.catalog import CATALOG, describe
from autocl.data.features import compute_features
from autocl.data.imageset import LabelledSet, assert_disjoint, some_rows
from autocl.data.sampler import StreamSampler
from autocl.data.stream_config import RandomStreamConfig, StreamConfig
from autocl.encoders.backbones import get_backbone
from autocl.errors import InputError
from autocl.training.recipe import Recipe, Source

HELD_OUT_PART = 5
"""One class in so many of a user's own folder is kept from training: the last ones by name."""
VALIDATION_SEED = 0
SIDE = 32
"""Pixels a side at which image sets are loaded for a backbone, as by `autocl features`."""


def load_sets(source: Source, *, size: int, channels: int) -> tuple[ImageSet, ImageSet]:
    """Training and validation classes of a source; they share none.

    Args:
        source: the recipe's.
        size: pixels a side.
        channels: 1 or 3, for a folder of one's own; the other sets have theirs.
    """
    if source.name not in CATALOG and Path(source.name).is_dir():
        whole = from_folder(source.name, size=size, channels=channels)
        train, val = _cut(whole, max(1, whole.n_classes // HELD_OUT_PART))
    elif held_out := describe(source.name).held_out:
        train, val = _cut(load(source.name, "train", size=size, **source.options("train")), held_out)
    else:
        train = load(source.name, "train", size=size, **source.options("train"))
        val = load(source.name, "val", size=size, **source.options("val"))
    assert_disjoint(train, val)
    return _few(train, source.images), _few(val, source.images)


def sets_of(recipe: Recipe) -> list[tuple[LabelledSet, LabelledSet]]:
    """Training and validation classes of each of the recipe's sources: images, or a backbone's features."""
    c = recipe.learner
    if not recipe.backbone:
        return [load_sets(source, size=c.height, channels=c.channels) for source in recipe.sources]
    backbone = get_backbone(recipe.backbone)
    if (c.channels, c.height, c.width) != (backbone.n_features, 1, 1):
        raise InputError(
            f"recipe {recipe.name}: {recipe.backbone} gives {backbone.n_features} features: set "
            f"learner.channels to that, learner.height and learner.width to 1"
        )
    pairs = (load_sets(source, size=SIDE, channels=3) for source in recipe.sources)
    return [(compute_features(train, backbone), compute_features(val, backbone)) for train, val in pairs]


def samplers(recipe: Recipe) -> tuple[StreamSampler, StreamSampler]:
    """Samplers of the recipe's training streams and of its validation streams."""
    pairs = sets_of(recipe)
    train, val = [p[0] for p in pairs], [p[1] for p in pairs]
    return (
        StreamSampler(train, recipe.streams, recipe.batch_size, recipe.seed),
        StreamSampler(val, _fitting(recipe.streams, val), recipe.batch_size, VALIDATION_SEED),
    )


def _fitting(
    streams: StreamConfig | RandomStreamConfig, sets: list[LabelledSet]
) -> StreamConfig | RandomStreamConfig:
    """Validation streams: all shots, and no more classes than the smallest set has (mini-ImageNet: 16)."""
    fewest = min(s.n_classes for s in sets)
    fitting = replace(streams, pool_classes=min(streams.pool_classes, fewest))
    if isinstance(fitting, RandomStreamConfig):
        return replace(fitting, n_outputs=min(fitting.n_outputs, fewest))
    return replace(fitting, min_shots=None)


def _few(images: ImageSet, most: int) -> ImageSet:
    """At most so many images of each class; 0: all."""
    if not most or most >= images.counts.max():
        return images
    kept = [np.arange(a, min(a + most, b)) for a, b in pairwise(images.starts)]
    return some_rows(images, np.concatenate(kept))


def _cut(images: ImageSet, held_out: int) -> tuple[ImageSet, ImageSet]:
    """All classes but the last `held_out`, and those."""
    cut = images.n_classes - held_out
    return _classes(images, 0, cut), _classes(images, cut, images.n_classes)


def _classes(images: ImageSet, lo: int, hi: int) -> ImageSet:
    """The classes lo..hi of a set, without copying a pixel."""
    a, b = int(images.starts[lo]), int(images.starts[hi])
    return replace(
        images,
        split=f"{images.split}[{lo}:{hi}]",
        images=images.images[a:b],
        starts=images.starts[lo : hi + 1] - a,
        classes=images.classes[lo:hi],
        order=None,
        hash=f"{images.hash}[{lo}:{hi}]",
    )
