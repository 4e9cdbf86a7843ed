"""Recipes by name: each a function that returns a complete configuration."""

from collections.abc import Callable

from autocl.names import resolve
from autocl.recipes import fast, paper
from autocl.training.recipe import Recipe

RECIPES: dict[str, Callable[[], Recipe]] = {
    f.__name__: f
    for f in (
        paper.paper_two_task,
        paper.paper_two_task_fc100,
        paper.paper_three_task,
        paper.paper_split_domain,
        paper.paper_split_class,
        fast.fast_two_task,
        fast.fast_two_task_long,
        fast.fast_three_task,
        fast.fast_split_domain,
        fast.fast_split_class,
        fast.fast_everyday,
        fast.quick,
    )
}


def get_recipe(name: str) -> Recipe:
    """The recipe of that name.

    Example:
        >>> get_recipe("quick").steps
        400
    """
    return RECIPES[resolve(name, RECIPES, "recipe")]()
