"""What streams require of image sets, checked before the first batch; and that splits share no class."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from autocl.data.imageset import ImageSet
from autocl.data.stream_config import RandomShapes, StreamConfig
from autocl.errors import DataError, InputError


def assert_disjoint(*sets: ImageSet) -> None:
    """Refuse image sets that share a class, such as a training split that leaks into a test split.

    Classes are told apart by name alone, so splits of one set and sets with common names are both covered.

    Raises:
        DataError: naming the two sets and the shared classes.

    Example:
        >>> import numpy as np
        >>> def toy(split, *classes):
        ...     return ImageSet(name="toy", split=split, images=np.zeros((len(classes), 1, 8, 8), np.uint8),
        ...                     starts=np.arange(len(classes) + 1), classes=classes, mean=(0.5,), std=(0.5,))
        >>> assert_disjoint(toy("train", "a", "b"), toy("val", "c"), toy("test", "d"))
    """
    for a, b in combinations(sets, 2):
        shared = sorted(set(a.classes) & set(b.classes))
        if shared:
            shown = ", ".join(shared[:5]) + (", …" if len(shared) > 5 else "")
            raise DataError(
                f"{a.name}/{a.split} and {b.name}/{b.split} share {len(shared)} classes ({shown}): "
                "results on one would leak from the other; drop them from one of the sets"
            )


def check_sets(sets: Sequence[ImageSet], config: StreamConfig | RandomShapes) -> None:
    """Refuse sets that cannot serve every stream of this configuration."""
    _check_number(len(sets), config)
    if len({s.images.shape[2:] for s in sets}) > 1:
        sizes = ", ".join(f"{s.name} {s.images.shape[2]}×{s.images.shape[3]}" for s in sets)
        raise InputError(f"the images of one batch must have one size, got {sizes}: load them with one size")
    classes, images = config.classes_per_set(len(sets)), config.images_per_class
    why = f"{classes} classes of one set and {images} images of a class"
    if config.drawing == "pooled":
        if config.pool_classes < classes:
            raise InputError(
                f"pool_classes={config.pool_classes} is too few: a stream may need {why}; raise pool_classes "
                "or lower tasks or ways"
            )
        classes, images = config.pool_classes, config.pool_images
        why = f"a pool of {classes} classes with {images} images each"
    for s in sets:
        smallest = int(np.argmin(s.counts)) if s.n_classes else 0
        if s.n_classes < classes:
            raise InputError(
                f"image set {s.name}/{s.split} has {s.n_classes} classes, but streams need {why}"
            )
        if s.counts[smallest] < images:
            raise InputError(
                f"image set {s.name}/{s.split} has {s.counts[smallest]} images of class "
                f"{s.classes[smallest]!r}, but streams need {why}"
            )


def _check_number(n_sets: int, config: StreamConfig | RandomShapes) -> None:
    if isinstance(config, RandomShapes):
        if n_sets < config.sets_per_step:
            raise InputError(
                f"sets_per_step={config.sets_per_step} needs as many image sets, got {n_sets}: lower it or "
                "give more sets"
            )
        return
    exact = {"single": 1, "alternate": 2}.get(config.order)
    if n_sets == 0 or (exact is not None and n_sets != exact):
        raise InputError(
            f"order={config.order!r} draws from {exact or 'one or more'} image set(s), got {n_sets}: "
            "choose another order or other sets"
        )
