"""Recipes by name: each a function without arguments that returns a complete configuration.

Every public function of a module here is one, so a new recipe is a new function. `paper_*` and `fast_*` are
named as they are; the others, with dashes, as the learners that they make.
"""

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator

from autocl.names import resolve
from autocl.training.recipe import Recipe


def _functions() -> Iterator[Callable[[], Recipe]]:
    for info in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{info.name}")
        for name, function in vars(module).items():
            own = inspect.isfunction(function) and function.__module__ == module.__name__
            if own and not name.startswith("_") and not inspect.signature(function).parameters:
                yield function


def _name(function: Callable[[], Recipe]) -> str:
    name = function.__name__
    return name if name.startswith(("paper_", "fast_")) else name.replace("_", "-")


RECIPES: dict[str, Callable[[], Recipe]] = {_name(function): function for function in _functions()}


def get_recipe(name: str) -> Recipe:
    """The recipe of that name.

    Example:
        >>> get_recipe("quick").steps
        1500
    """
    return RECIPES[resolve(name, RECIPES, "recipe")]()
