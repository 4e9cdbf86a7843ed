"""Meta-finetuning from learners that ship, for the paper's tables of shots and of meta-validation sets.

Minutes of one core each. `--validation.split mnist` (or fashion_mnist, cifar10) chooses the checkpoint on
held-out training images of that set, as the paper does.
"""

from dataclasses import replace

from autocl.recipes.fast import FIVE_TASKS, HANDWRITTEN, MINI_JITTERED, fast_split_class, fast_split_domain
from autocl.recipes.zoo import as_in_the_paper
from autocl.training.recipe import Optimiser, Recipe, Validation

FIVE_SHOTS = replace(FIVE_TASKS, shots=5, min_shots=None, pool_images=10)
FIFTEEN_SHOTS = replace(FIVE_TASKS, min_shots=None, pool_classes=20)
RATE = Optimiser(lr=1e-3, schedule="cosine", warmup=20, clip=1.0)


def split_domain_5_shots() -> Recipe:
    """split-domain-linear, finetuned with 5 demos of each class."""
    base = as_in_the_paper(fast_split_domain())
    return _five_shots(replace(base, name="split-domain-5-shots", init_from="split-domain-linear"))


def split_class_5_shots() -> Recipe:
    """split-class-linear, finetuned with 5 demos of each class."""
    base = as_in_the_paper(fast_split_class())
    return _five_shots(replace(base, name="split-class-5-shots", init_from="split-class-linear"))


def finetuned_omniglot() -> Recipe:
    """two-task, finetuned with 5 domain-incremental 2-way tasks of Omniglot."""
    base = as_in_the_paper(fast_split_domain())
    return replace(
        base,
        name="finetuned-omniglot",
        init_from="two-task",
        finetune=True,
        learner=replace(base.learner, channels=3),
        streams=FIFTEEN_SHOTS,
        optimiser=RATE,
        validation=Validation(every=25, batches=8),
        steps=100,
        batch_size=16,
    )


def finetuned_both() -> Recipe:
    """The same with tasks of Omniglot and mini-ImageNet: each task from one of them."""
    base = finetuned_omniglot()
    return replace(
        base,
        name="finetuned-both",
        sources=(HANDWRITTEN, MINI_JITTERED),
        streams=replace(FIFTEEN_SHOTS, order="mixture", pool_classes=15),
    )


def _five_shots(recipe: Recipe) -> Recipe:
    return replace(
        recipe,
        finetune=True,
        streams=replace(FIVE_SHOTS, scenario=recipe.streams.scenario),
        optimiser=RATE,
        validation=Validation(every=100, batches=8),
        steps=300,
    )
