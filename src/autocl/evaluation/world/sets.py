"""The image sets of the world table, and their features by one encoder, each picture encoded once.

Shape legend: n = images, C = channels, H, W = pixels, F = features, K = classes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import nn

from autocl.baselines.embedding import BackboneEmbedding, Embedding, measuring
from autocl.data.cache import cache_folder
from autocl.data.catalog import describe
from autocl.data.features import Encoder, compute_features
from autocl.data.folder import PictureList, list_folder, list_set
from autocl.data.imageset import FeatureSet
from autocl.data.loading import load
from autocl.data.locate import search_folders
from autocl.data.preprocess import resize, standardise_each, standardise_set, unit_range
from autocl.encoders.backbones import Backbone
from autocl.errors import DataError
from autocl.learner import Learner

Split = Literal["test", "validation", "meta-training"]

CLASSES, IMAGES, TOTAL = 60, 55, 2400
"""Most classes of a set, images of a class, and images of a set that are encoded: enough for 50 classes, and
for 30 demos with 25 queries; minutes for a frozen backbone."""


WORLDS: dict[Split, tuple[str, ...]] = {
    "test": (
        "digits/train", "svhn/train",  # larger than their test parts, and nothing is ever trained on them
        "mnist/test", "fashion_mnist/test", "notmnist/test", "cifar10/test", "cifar100/test",
        "mini_imagenet/test", "omniglot/test", "glyphs/test", "cub", "cars",
    ),
    "validation": ("mini_imagenet/val", "omniglot/val", "imagenette", "pacs", "textures", "hands"),
    "meta-training": (
        "mini_imagenet/train", "tiny_imagenet/train", "omniglot/train", "fruits", "plants", "signs",
        "caltech", "letters", "clothes", "glyphs/train",
    ),
}  # fmt: skip
"""Sets by their names in the table: NAME/SPLIT of one that `load` knows, or a folder of class folders.
Nothing is trained on the first two worlds. Validation may choose things, test only reports."""
OPTIONS: dict[str, dict[str, Any]] = {
    "glyphs/test": {"classes": CLASSES, "examples": 40, "seed": 20},
    "glyphs/train": {"classes": CLASSES, "examples": 40, "seed": 0},
    "tiny_imagenet/train": {"exclude_mini_imagenet": True},
}
"""For `load`."""
PHOTOGRAPHS = "mini_imagenet"
"""The set whose mean and deviation folders are standardised by, where a learner asks for those of a set."""


@dataclass(frozen=True, kw_only=True)
class Eyes:
    """Source of features: a frozen backbone, or the encoder of a learner."""

    name: str
    size: int
    """Pixels a side at which image sets are loaded."""
    channels: int | None
    """1 if pictures must be gray; None: as they are."""
    encoder: Callable[[tuple[float, ...], tuple[float, ...]], Encoder]
    """For a set with this mean and deviation of each channel."""
    fingerprint: str
    through: nn.Module | None = None
    """What features go through, [n, F] -> [n, D]; they are kept on disk as they were before."""


def backbone_eyes(backbone: Backbone) -> Eyes:
    """Those of a frozen backbone."""
    return Eyes(
        name=backbone.name, size=32, channels=None, encoder=lambda mean, std: backbone,
        fingerprint=backbone.fingerprint[:16],
    )  # fmt: skip


def mapped_eyes(backbone: Backbone, learner: Learner, name: str) -> Eyes:
    """Those of a frozen backbone with the encoder of a learner of vectors behind it."""
    fingerprint = BackboneEmbedding(backbone, learner.encoder).fingerprint()
    return replace(backbone_eyes(backbone), name=name, fingerprint=fingerprint, through=learner.encoder)


def learner_eyes(learner: Learner, name: str) -> Eyes:
    """Those of a learner: its encoder, fed as its configuration says."""
    embedding = Embedding.of(learner)
    fingerprint, c = embedding.fingerprint(), learner.config

    def encoder(mean: tuple[float, ...], std: tuple[float, ...]) -> Encoder:
        return _LearnerEncoder(embedding, name, fingerprint, c.height, mean, std)

    return Eyes(
        name=name, size=c.height, channels=1 if c.channels == 1 else None, encoder=encoder,
        fingerprint=fingerprint,
    )  # fmt: skip


class _LearnerEncoder:
    """A learner's encoder in the form that the feature cache asks for."""

    def __init__(
        self,
        embedding: Embedding,
        name: str,
        weights: str,
        size: int,
        mean: tuple[float, ...],
        std: tuple[float, ...],
    ) -> None:
        self.embedding, self.name, self.image_size, self.mean, self.std = embedding, name, size, mean, std
        self.fingerprint = sha256(repr((weights, size, mean, std)).encode()).hexdigest()
        self.n_features = embedding.n_features

    def __call__(self, images: Sequence[Image.Image], /) -> npt.NDArray[np.float32]:
        """Pillow images to vectors [n, F]."""
        size, stored = (self.image_size, self.image_size), len(self.mean)
        pixels = np.concatenate([resize(np.asarray(image)[None], size, stored) for image in images])
        x = unit_range(pixels)
        alone = self.embedding.standardise == "image"
        x = standardise_each(x) if alone else standardise_set(x, self.mean, self.std)
        with measuring(self.embedding.encoder):
            features = self.embedding.encoder(x.expand(-1, self.embedding.channels, -1, -1))
        found: npt.NDArray[np.float32] = features.cpu().numpy().astype(np.float32)
        return found


def world_features(
    split: Split, eyes: Eyes, *, say: Callable[[str], None] = lambda _: None
) -> dict[str, FeatureSet]:
    """Features of a world's sets by their names in the table, from the cache as far as they are there.

    Args:
        split: which world.
        eyes: whose features.
        say: is told which sets are not on this machine; the table goes without them.

    Example:
        >>> from autocl.evaluation.world.streams import cells
        >>> eyes = learner_eyes(find_learner("everyday"), "everyday")                       # doctest: +SKIP
        >>> for passage in cells(world_features("test", eyes)):                             # doctest: +SKIP
        ...     print(passage.cell, passage.x.shape)
    """
    found = {}
    for key in WORLDS[split]:
        name, _, part = key.partition("/")
        try:
            if part:
                known = load(name, part, size=eyes.size, channels=eyes.channels, **OPTIONS.get(key, {}))
                pictures = part_of(list_set(known))
            else:
                pictures = part_of(list_folder(folder_of(name)))
        except DataError as error:
            say(f"without {key}: {error}")
            continue
        info = describe(name if part else PHOTOGRAPHS)
        mean, std = info.mean, info.std
        if eyes.channels == 1 and len(mean) == 3:
            one = load(info.name, info.splits[-1], size=eyes.size, channels=1)
            mean, std = one.mean, one.std
        encoder = eyes.encoder(mean, std)
        made = compute_features(pictures, encoder, workers=1, dtype="float32")
        found[key] = made if eyes.through is None else _mapped(made, eyes.through, eyes.fingerprint)
    return found


def _mapped(made: FeatureSet, through: nn.Module, fingerprint: str) -> FeatureSet:
    with measuring(through):
        features = through(torch.from_numpy(np.array(made.features))).numpy()
    return replace(made, features=features, hash=sha256(f"{made.hash} {fingerprint}".encode()).hexdigest())


def part_of(pictures: PictureList) -> PictureList:
    """A part that is worth encoding: evenly spaced classes, and the first images of each."""
    starts = pictures.starts
    n_classes = min(CLASSES, len(starts) - 1)
    images = min(IMAGES, TOTAL // n_classes)
    kept = np.linspace(0, len(starts) - 2, n_classes).round().astype(int)
    rows = [np.arange(starts[c], min(starts[c] + images, starts[c + 1])) for c in kept]
    row = np.concatenate(rows)
    if len(row) == len(pictures):
        return pictures
    ends = np.cumsum([len(r) for r in rows])
    return replace(
        pictures,
        classes=tuple(pictures.classes[c] for c in kept),
        starts=np.concatenate([[0], ends]).astype(np.int64),
        order=None if pictures.order is None else pictures.order[row],
        hash=sha256(pictures.hash.encode() + row.astype("<i8").tobytes()).hexdigest(),
        read=lambda i, at_least: pictures.read(int(row[i]), at_least),
    )


def folder_of(name: str) -> Path:
    """The folder of class folders of this name: in a data folder, or in the cache under `folders`."""
    places = [*(folder / name for folder in search_folders()), cache_folder() / "folders" / name]
    for place in places:
        if place.is_dir():
            return place
    raise DataError(f"{name} is a folder with one folder of pictures per class; put it at {places[-1]}")
