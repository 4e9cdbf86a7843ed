"""Run: a run's moving parts. Its streams come from the sets that a recipe names, its learner from the recipe,
a checkpoint or another learner.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from types import FrameType

import numpy as np
import torch

from autocl.data import ImageSet, from_folder, load
from autocl.data.catalog import CATALOG, describe
from autocl.data.features import compute_features
from autocl.data.imageset import LabelledSet, assert_disjoint, some_rows
from autocl.data.sampler import StreamSampler
from autocl.data.stream_config import RandomStreamConfig, StreamConfig
from autocl.encoders.backbones import get_backbone
from autocl.errors import InputError, TrainingError
from autocl.learner import FastWeightLearner, Learner, LearnerState, ReadoutLearner
from autocl.learner.config import ReadoutLearnerConfig
from autocl.learner.find import find_learner
from autocl.training import checkpoint, parallel
from autocl.training.checkpoint import Progress
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


@dataclass(kw_only=True)
class Run:
    """A run's moving parts."""

    recipe: Recipe
    folder: Path
    ranks: parallel.Ranks
    learner: Learner
    optimiser: torch.optim.Adam
    train: StreamSampler
    val: StreamSampler
    progress: Progress
    carried: LearnerState | None = None
    """State that this rank's streams of the next batch start from; None: the initial one."""


def prepare(
    recipe: Recipe, folder: Path, ranks: parallel.Ranks, *, resume: bool = False, start: Path | None = None
) -> Run:
    """Load data, build the learner and its optimiser.

    Args:
        recipe: of one stage.
        folder: where its checkpoint is.
        ranks: this process and its peers.
        resume: go on from the checkpoint, if there is one.
        start: the learner of the stage before; default: that of `init_from`, or fresh weights.
    """
    lo, hi = ranks.local_slice(recipe.batch_size)
    resume = resume and (folder / checkpoint.FILE_NAME).exists()
    torch.manual_seed(recipe.seed)
    train_sampler, val_sampler = samplers(recipe)
    learner = Learner(recipe.learner)
    source = start or recipe.init_from
    if source and not resume:
        learner = _finetuned(recipe, source)
    learner = learner.to(ranks.device).train()
    o = recipe.optimiser
    trained = [p for p in learner.parameters() if p.requires_grad]
    optimiser = torch.optim.Adam(trained, lr=o.lr, betas=o.betas, eps=o.eps, fused=True)
    run = Run(
        recipe=recipe, folder=folder, ranks=ranks, learner=learner, optimiser=optimiser,
        train=train_sampler, val=val_sampler, progress=Progress(),
    )  # fmt: skip
    if resume:
        run.progress, carried = checkpoint.load(folder, learner, optimiser)
        run.carried = None if carried is None else carried[lo:hi]
    (furthest,) = ranks.agree(run.progress.step)
    if furthest != run.progress.step:
        raise TrainingError(
            f"rank {ranks.rank} would start at step {run.progress.step}, another one at {furthest}: all "
            f"machines must see {folder} to resume"
        )
    return run


def _finetuned(recipe: Recipe, source: Path | str) -> Learner:
    """A learner that was trained before, with as many classes as the recipe asks for.

    What it lacks of a read-out starts fresh, so that the paper's learners can be finetuned with ours; so does
    all but the encoder where a read-out takes the place of fast weights.
    """
    learner = find_learner(source)
    if isinstance(learner, FastWeightLearner) and isinstance(recipe.learner, ReadoutLearnerConfig):
        config = replace(
            recipe.learner, encoder=replace(learner.config.encoder, dropout=recipe.learner.encoder.dropout)
        )
        learner = ReadoutLearner(config, encoder=learner.encoder)
    if type(learner.config) is not type(recipe.learner):
        raise TrainingError(
            f"{source} is a learner of another kind ({type(learner.config).__name__}) than recipe "
            f"{recipe.name} trains ({type(recipe.learner).__name__})"
        )
    if learner.config.n_classes != recipe.learner.n_classes:
        learner = learner.with_classes(recipe.learner.n_classes)
    # What does not change the weights' shapes is the recipe's to say; the rest must agree.
    fresh = Learner(recipe.learner)
    weights = learner.weights()
    if learner.readout is None:
        weights = {**fresh.weights(), **weights}
    try:
        fresh.load_weights(weights)
    except RuntimeError as error:
        reason = str(error).splitlines()[1].strip()
        raise TrainingError(f"{source} does not fit recipe {recipe.name}: {reason}") from error
    return fresh


class InterruptedRunError(Exception):
    """A signal asked the run to end; its checkpoint is written."""

    def __init__(self, signum: int, folder: Path) -> None:
        name = signal.Signals(signum).name
        super().__init__(f"stopped by {name}; continue with autocl train --resume {folder}")
        self.signum = signum


@contextmanager
def signals() -> Iterator[list[int]]:
    """Note SIGINT, SIGTERM and SIGHUP in the list that is yielded; a second one ends the process at once."""
    received: list[int] = []

    def note(signum: int, frame: FrameType | None) -> None:
        if received:
            raise KeyboardInterrupt if signum == signal.SIGINT else SystemExit(128 + signum)
        received.append(signum)
        # Not print(): the signal may have come in the middle of one, and streams are not reentrant.
        with suppress(OSError):  # a closed terminal takes no message
            os.write(2, b"\nsaving after this step; interrupt again to stop at once\n")

    names = ("SIGINT", "SIGTERM", "SIGHUP")
    noted = [getattr(signal, name) for name in names if hasattr(signal, name)]  # Windows lacks the last
    try:
        old = {s: signal.signal(s, note) for s in noted}
    except ValueError:  # not in the main thread: signals are somebody else's business
        yield received
        return
    try:
        yield received
    finally:
        for s, handler in old.items():
            signal.signal(s, handler)
