"""Recipes whose results are the learners that ship: `autocl train two-task` makes `two-task` from nothing."""

from dataclasses import replace

from autocl.data.stream_config import RandomStreamConfig
from autocl.encoders import EncoderConfig
from autocl.learner.config import LearnerConfig, ReadoutLearnerConfig
from autocl.objective import ObjectiveConfig
from autocl.readouts import ReadoutConfig
from autocl.recipes.fast import (
    FIVE_TASKS,
    HANDWRITTEN,
    MINI_JITTERED,
    PHOTOS,
    TWO_TASKS,
    fast_everyday,
    fast_split_class,
    fast_split_domain,
    fast_two_task,
    fast_two_task_long,
)
from autocl.recipes.paper import WARMUP
from autocl.training.recipe import Optimiser, Recipe, Source, Validation

FC100 = Source(name="fc100", augment=PHOTOS)


def _without_backward_terms(recipe: Recipe) -> Recipe:
    return replace(recipe, objective=replace(recipe.objective, acl=False))


def _noacl(recipe: Recipe) -> Recipe:
    """The same without backward terms, its checkpoints chosen as the authors choose theirs."""
    return replace(
        _without_backward_terms(recipe),
        name=f"{recipe.name}-noacl",
        stages=tuple(_without_backward_terms(stage) for stage in recipe.stages),
        validation=replace(recipe.validation, rule="paper"),
    )


def as_in_the_paper(recipe: Recipe) -> Recipe:
    """The paper's architecture, without our read-out."""
    assert isinstance(recipe.learner, LearnerConfig)
    learner = replace(recipe.learner, readout="linear", readout_keys=128)
    return replace(recipe, learner=learner, objective=replace(recipe.objective, body_weight=0.0))


def two_task() -> Recipe:
    """Omniglot and mini-ImageNet, 5-way 15-shot: fast_two_task, then fast_two_task_long."""
    return replace(fast_two_task_long(), name="two-task", stages=(fast_two_task(),))


def two_task_noacl() -> Recipe:
    """two-task without backward terms: it forgets the first task.

    The second stage has the paper's schedule, whose rate stays below a third of two-task's: at that one
    it comes to keep more and more of Omniglot, though nothing asks for it (docs/paper.md).
    """
    return replace(_noacl(two_task()), optimiser=WARMUP)


def two_task_fc100() -> Recipe:
    """FC100 and mini-ImageNet, 5-way 15-shot; starts from two-task, which knows how to learn two tasks.

    Half the streams of two-task a step: about half a second of one core.
    """
    base = fast_two_task_long()
    return replace(
        base,
        name="two-task-fc100",
        init_from="two-task",
        sources=(FC100, MINI_JITTERED),
        streams=replace(base.streams, queries=20, pool_classes=14),
        # Both sets are photographs: no weights, as in the paper.
        objective=ObjectiveConfig(),
        steps=4000,
        batch_size=16,
    )


def two_task_fc100_noacl() -> Recipe:
    """two-task-fc100 without backward terms, from two-task-noacl: it forgets within a hundred steps."""
    base = _noacl(two_task_fc100())
    return replace(base, init_from="two-task-noacl", validation=replace(base.validation, every=50), steps=300)


def fc100_encoder() -> Recipe:
    """The encoder of two-task-fc100-memory: that of two-task-fc100, trained on without fast weights.

    Most of the loss is that of prototypes, among 80 classes of both sets at once. The kernel read-out learns
    two tasks as the memory will, chooses the checkpoint, and is left behind (`python -m tools.graft`).
    """
    base = two_task_fc100()
    return replace(
        base,
        name="fc100-encoder",
        init_from="two-task-fc100",
        streams=replace(TWO_TASKS, shots=5, queries=25, pool_classes=40, pool_images=10),
        learner=ReadoutLearnerConfig(
            n_classes=5,
            encoder=EncoderConfig(dropout=0.0),  # 28,896 weights are too few to learn the classes by heart
            readout=ReadoutConfig(kind="kernel", keys=256),
        ),
        objective=ObjectiveConfig(boundaries="last"),
        optimiser=replace(base.optimiser, lr=2e-3, betas=(0.9, 0.999), eps=1e-8),
        validation=Validation(every=250, batches=16),
        prototype=3.0,
        steps=3000,
    )


def three_task() -> Recipe:
    """Three tasks, each of Omniglot, mini-ImageNet or FC100; starts from two-task.

    The sets are drawn with replacement, so that a stream may hold two tasks of one kind, as MNIST-04 and
    MNIST-59 are; the paper has each set once.
    """
    base = fast_two_task()
    return replace(
        base,
        name="three-task",
        init_from="two-task",
        finetune=True,
        sources=(HANDWRITTEN, MINI_JITTERED, FC100),
        streams=replace(TWO_TASKS, tasks=3, order="mixture", queries=20, pool_classes=15),
        optimiser=replace(base.optimiser, lr=8e-4, warmup=10),
        validation=Validation(every=250, batches=6),
        steps=2500,
        batch_size=12,
    )


def split_class() -> Recipe:
    """5-task 2-way class-incremental streams: the fast weights alone, then with the kernel read-out."""
    base = replace(fast_split_class(), bf16=True)
    return replace(
        base,
        name="split-class",
        stages=(as_in_the_paper(base),),
        finetune=True,
        optimiser=_second(base.optimiser),
        validation=Validation(every=200, batches=8),
        steps=2400,
    )


def split_class_linear() -> Recipe:
    """split-class without our read-out: the paper's architecture."""
    base = split_class()
    return replace(as_in_the_paper(base), name="split-class-linear")


def split_domain() -> Recipe:
    """Domain-incremental streams of 3 to 10 2-way tasks: the fast weights alone, then the read-out, too."""
    base = replace(fast_split_domain(), bf16=True)
    return replace(
        base,
        name="split-domain",
        streams=replace(FIVE_TASKS, tasks=10, min_tasks=3),
        stages=(as_in_the_paper(base),),
        finetune=True,
        optimiser=_second(base.optimiser),
        validation=Validation(every=200, batches=10),
        steps=2600,
    )


def split_domain_linear() -> Recipe:
    """split-domain without our read-out, in one stage of five tasks: the paper's architecture."""
    return replace(as_in_the_paper(fast_split_domain()), name="split-domain-linear")


def everyday_encoder() -> Recipe:
    """The encoder of everyday: prototypes among 80 classes of two sets at once, four sets in all.

    As in fc100-encoder, a kernel read-out learns the streams, chooses the checkpoint, and is left behind
    (`python -m tools.train_universal`). Without fast weights a step takes a quarter of the time.
    """
    base = fast_everyday()
    assert isinstance(base.streams, RandomStreamConfig)
    return replace(
        base,
        name="everyday-encoder",
        streams=replace(base.streams, max_shots=6, query_images=4, pool_classes=40, pool_images=10),
        learner=ReadoutLearnerConfig(
            n_classes=20,
            standardise="image",
            encoder=EncoderConfig(dropout=0.0),
            readout=ReadoutConfig(kind="kernel", keys=256),
        ),
        objective=ObjectiveConfig(boundaries="last"),
        optimiser=replace(base.optimiser, betas=(0.9, 0.999), eps=1e-8),
        validation=Validation(every=500, batches=12),
        prototype=3.0,
        steps=12000,
        batch_size=8,
        bf16=True,
    )


def _second(optimiser: Optimiser) -> Optimiser:
    """A second stage starts with a lower rate."""
    return replace(optimiser, lr=1.5e-3)
