"""From the names in a recipe to samplers of training and validation streams."""

from dataclasses import replace

from autocl.data import ImageSet, load
from autocl.data.requirements import assert_disjoint
from autocl.data.sampler import StreamSampler
from autocl.data.stream_config import RandomShapes, StreamConfig
from autocl.training.recipe import Recipe, Source

HELD_OUT = 20
"""Classes kept from training where a set has no validation classes of its own (Tiny-ImageNet)."""
VALIDATION_SEED = 0


def load_sets(source: Source, *, size: int) -> tuple[ImageSet, ImageSet]:
    """Training and validation classes of a source; they share none."""
    train = load(source.name, "train", size=size, **source.options("train"))
    if source.name == "tiny_imagenet":
        cut = train.n_classes - HELD_OUT
        train, val = _classes(train, 0, cut), _classes(train, cut, train.n_classes)
    else:
        val = load(source.name, "val", size=size, **source.options("val"))
    assert_disjoint(train, val)
    return train, val


def samplers(recipe: Recipe) -> tuple[StreamSampler, StreamSampler]:
    """Samplers of the recipe's training streams and of its validation streams."""
    pairs = [load_sets(source, size=recipe.learner.height) for source in recipe.sources]
    train, val = [p[0] for p in pairs], [p[1] for p in pairs]
    return (
        StreamSampler(train, recipe.streams, recipe.batch_size, recipe.seed),
        StreamSampler(val, _fitting(recipe.streams, val), recipe.batch_size, VALIDATION_SEED),
    )


def _fitting(streams: StreamConfig | RandomShapes, sets: list[ImageSet]) -> StreamConfig | RandomShapes:
    """Validation streams: all shots, and no more classes than the smallest set has (mini-ImageNet: 16)."""
    fewest = min(s.n_classes for s in sets)
    fitting = replace(streams, pool_classes=min(streams.pool_classes, fewest))
    if isinstance(fitting, RandomShapes):
        return replace(fitting, n_outputs=min(fitting.n_outputs, fewest))
    return replace(fitting, fewest_shots=None)


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
