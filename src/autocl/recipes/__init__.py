"""Recipes by name: each a function that returns a complete configuration."""

from collections.abc import Callable

from autocl.names import resolve
from autocl.recipes import fast, finetuned, meta_baselines, paper, zoo
from autocl.training.recipe import Recipe

OURS: tuple[Callable[[], Recipe], ...] = (
    paper.paper_two_task,
    paper.paper_two_task_fc100,
    paper.paper_three_task,
    paper.paper_split_domain,
    paper.paper_split_class,
    paper.paper_backbone,
    fast.fast_two_task,
    fast.fast_two_task_long,
    fast.fast_split_domain,
    fast.fast_split_class,
    fast.fast_everyday,
    fast.quick,
)
SHIPPED: tuple[Callable[[], Recipe], ...] = (
    zoo.two_task,
    zoo.two_task_noacl,
    zoo.two_task_fc100,
    zoo.two_task_fc100_noacl,
    zoo.three_task,
    zoo.split_class,
    zoo.split_class_linear,
    zoo.split_domain,
    zoo.split_domain_linear,
    zoo.everyday_fast,
    meta_baselines.prototypes,
    meta_baselines.gemcl,
    meta_baselines.gemcl_map,
    meta_baselines.oml,
    meta_baselines.anml,
)
"""Named as their results in the zoo, with dashes."""
FINETUNED: tuple[Callable[[], Recipe], ...] = (
    finetuned.split_domain_5_shots,
    finetuned.split_class_5_shots,
    finetuned.finetuned_omniglot,
    finetuned.finetuned_both,
)
"""For rows of the paper's tables; their learners do not ship."""
RECIPES: dict[str, Callable[[], Recipe]] = {
    **{f.__name__: f for f in OURS},
    **{f.__name__.replace("_", "-"): f for f in (*SHIPPED, *FINETUNED)},
}


def get_recipe(name: str) -> Recipe:
    """The recipe of that name.

    Example:
        >>> get_recipe("quick").steps
        1500
    """
    return RECIPES[resolve(name, RECIPES, "recipe")]()
