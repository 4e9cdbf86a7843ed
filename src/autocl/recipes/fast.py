"""Our own runs: the same objectives, within an hour on two CPU cores.

What they change (docs/notebook.md has what was measured of it): streams cut from one pool of images that is
encoded once, several queries for each state, label columns scaled up at initialisation, a prototype loss for
the encoder, augmentation, a cosine schedule, and (unless --learner.readout linear) a read-out of our own.
"""

from dataclasses import replace

from autocl.data.augment import Augment
from autocl.data.stream_config import RandomStreamConfig, StreamConfig
from autocl.encoders import EncoderConfig
from autocl.learner.config import LearnerConfig
from autocl.objective import ObjectiveConfig
from autocl.recipes.paper import paper_backbone
from autocl.training.recipe import Optimiser, Recipe, Source, Validation

HANDWRITING = Augment(rotate=15, scale=0.2, shear=0.2, shift=0.1, thickness=0.5)
"""Slant, size and pen of other hands; small enough that a class stays itself."""
PHOTOS = Augment(scale=0.15, shift=0.1, brightness=0.1, contrast=0.2, colour=0.05, flip=0.5)
"""mini-ImageNet has only 64 classes, and they are learned by heart without."""

OMNIGLOT = Source(name="omniglot", rotations=True)
HANDWRITTEN = replace(OMNIGLOT, augment=HANDWRITING)
MINI_IMAGENET = Source(name="mini_imagenet")
MINI_JITTERED = replace(MINI_IMAGENET, augment=PHOTOS)
TINY_JITTERED = Source(name="tiny_imagenet", augment=PHOTOS)
GLYPHS = Source(name="glyphs")

FIVE_TASKS = StreamConfig(tasks=5, ways=2, shots=15, min_shots=3, queries=10)
"""Shots vary, or the self-modifying layers answer worse with fewer."""
TWO_TASKS = StreamConfig(
    tasks=2, ways=5, shots=15, queries=15, order="alternate", pool_classes=20, pool_images=20
)
RIDGE = LearnerConfig(readout="ridge", readout_keys=256, readout_hidden=256)
"""Keys of 256 keep 40 classes apart under two labels, where 128 linear ones did not (docs/notebook.md)."""
KERNEL = LearnerConfig(readout="kernel", readout_keys=256)
"""Better than RIDGE in long streams, not with few shots nor over four sets (docs/notebook.md)."""
BOTH = ObjectiveConfig(body_weight=1.0)
"""Body and read-out must each be able to answer; without it the body stayed at chance."""
LABEL_SCALE = 10.0
"""Ends the plateau at the start after a few hundred steps instead of thousands."""


def _optimiser(lr: float = 2e-3) -> Optimiser:
    return Optimiser(lr=lr, schedule="cosine", warmup=50, clip=1.0)


def fast_split_domain() -> Recipe:
    """5-task 2-way domain-incremental streams over Omniglot, from scratch."""
    return Recipe(
        name="fast_split_domain",
        sources=(HANDWRITTEN,),
        streams=FIVE_TASKS,
        learner=replace(KERNEL, n_classes=2, channels=1, label_scale=LABEL_SCALE),
        objective=BOTH,
        optimiser=_optimiser(),
        validation=Validation(every=100, batches=4),
        prototype=1.0,
        steps=1200,
        batch_size=24,
    )


def fast_split_class() -> Recipe:
    """5-task 2-way class-incremental streams over Omniglot, 10 outputs, from scratch."""
    base = fast_split_domain()
    return replace(
        base,
        name="fast_split_class",
        streams=replace(FIVE_TASKS, scenario="class"),
        learner=replace(base.learner, n_classes=10),
    )


def fast_two_task() -> Recipe:
    """Omniglot and mini-ImageNet, 5-way 15-shot, alternating; --objective.no-acl shows forgetting."""
    return Recipe(
        name="fast_two_task",
        sources=(OMNIGLOT, MINI_IMAGENET),
        streams=TWO_TASKS,
        learner=LearnerConfig(n_classes=5, label_scale=LABEL_SCALE),
        optimiser=_optimiser(),
        validation=Validation(every=200, batches=4),
        prototype=1.0,
        steps=2000,
        batch_size=32,
        bf16=True,
    )


def fast_two_task_long() -> Recipe:
    """The second stage of fast_two_task, with the paper's 1-shot term and weights. Start it with --init-from.

    From scratch these terms keep mini-ImageNet at chance for over a thousand steps (docs/notebook.md).
    """
    base = fast_two_task()
    return replace(
        base,
        name="fast_two_task_long",
        finetune=True,
        sources=(OMNIGLOT, MINI_JITTERED),
        streams=replace(TWO_TASKS, first_shot=True),
        objective=ObjectiveConfig(own_weights=(0.1, 1.0)),
        optimiser=_optimiser(1.5e-3),
        steps=3000,
    )


def fast_everyday() -> Recipe:
    """Streams of random shape over four image sets: the learner for daily use."""
    return Recipe(
        name="fast_everyday",
        sources=(HANDWRITTEN, MINI_JITTERED, TINY_JITTERED, replace(GLYPHS, augment=HANDWRITING)),
        streams=RandomStreamConfig(
            n_outputs=20, share_chance=0.25, sets_per_step=2, pool_classes=20, pool_images=20
        ),
        learner=replace(RIDGE, n_classes=20, label_scale=LABEL_SCALE),
        objective=BOTH,
        optimiser=_optimiser(),
        validation=Validation(every=200, batches=12),
        prototype=1.0,
        steps=3000,
        batch_size=24,
    )


def acl_lite2() -> Recipe:
    """The paper's architecture behind EfficientNet-Lite2, five 2-way tasks: paper_backbone, made faster.

    A step of paper_backbone is 64 streams of 150 demos through a million weights, 0.7 s of one core, and its
    schedule has 20,000. Here a step has 8 streams with ten queries of each task, in bfloat16 where that pays.
    Streams of one to five tasks come first; with five from the start, 24 streams and labels scaled by 10 it
    was at 17 % of validation classes after 500 steps (chance: 10).
    """
    base = paper_backbone()
    assert isinstance(base.learner, LearnerConfig)
    five = replace(FIVE_TASKS, scenario="class", min_shots=None, order="mixture", pool_classes=16)
    first = replace(
        base,
        name="acl-lite2-first",
        streams=replace(five, min_tasks=1),
        # A feature vector's norm is about 17, more than half of it common to all images; a label's is 1.
        learner=replace(base.learner, label_scale=30.0, dropout=0.0),
        optimiser=_optimiser(1e-3),
        validation=Validation(every=200, batches=16),
        steps=4000,
        batch_size=8,
        bf16=True,
    )
    return replace(
        first,
        name="acl-lite2",
        streams=five,
        stages=(first,),
        finetune=True,
        optimiser=_optimiser(7e-4),
        steps=3000,
    )


def quick() -> Recipe:
    """Two tasks of drawn glyphs, 5-way 5-shot, a tiny learner: no download, minutes on a laptop.

    Its two results ship: `quick` and, made with --objective.no-acl, `quick-noacl`. Both learn a task; one
    was told that the task before it matters. `autocl tour` measures them side by side on new glyphs.
    """
    return Recipe(
        name="quick",
        sources=(replace(GLYPHS, classes=400),),
        streams=StreamConfig(tasks=2, ways=5, shots=5, queries=10, pool_classes=20, pool_images=10),
        learner=LearnerConfig(
            n_classes=5, channels=1, label_scale=LABEL_SCALE, model_width=64, heads=4,
            encoder=EncoderConfig(width=16),
        ),
        optimiser=_optimiser(3e-3),
        validation=Validation(every=250, batches=4),
        prototype=1.0,
        steps=1500,
        batch_size=24,
    )  # fmt: skip
