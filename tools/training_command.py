"""The command that trains a recipe again: its name, and every setting in which it is not that recipe."""

from collections.abc import Mapping
from typing import Any

from autocl.config import to_dict
from autocl.recipes import RECIPES, get_recipe
from autocl.training.recipe import flat


def command_of(recipe: Mapping[str, Any]) -> str:
    """`autocl train …` for a recipe as `to_dict` writes it; empty when its name is none of ours.

    Settings that came into being after the recipe was written have their present defaults.

    Example:
        >>> recipe = to_dict(get_recipe("quick"))
        >>> command_of({**recipe, "steps": 10, "objective": {**recipe["objective"], "acl": False}})
        'autocl train quick --objective.no-acl --steps 10'
    """
    if recipe["name"] not in RECIPES:
        return ""
    usual = flat(to_dict(get_recipe(recipe["name"])))
    changed = [_option(at, value) for at, value in flat(recipe).items() if usual.get(at, value) != value]
    return " ".join(["autocl train", recipe["name"], *changed])


def _option(at: str, value: Any) -> str:
    at = at.replace("_", "-")
    if isinstance(value, bool):
        before, _, last = at.rpartition(".")
        return f"--{before}{'.' if before else ''}{'' if value else 'no-'}{last}"
    return " ".join([f"--{at}", *map(str, value if isinstance(value, list) else [value])])
