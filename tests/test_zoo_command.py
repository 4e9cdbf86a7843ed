"""The command on a model card trains the recipe that the learner was made by."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from tools.training_command import command_of

from autocl import zoo
from autocl.cli.train import read_order
from autocl.config import to_dict
from autocl.recipes import RECIPES, get_recipe

FOLDER = Path(zoo.__file__).parent


BY_RECIPE = [n for n in zoo.names() if "recipe" in json.loads((FOLDER / f"{n}.json").read_text())]


def still_there(settings: Any, other: Any) -> Any:
    """The settings that the other has, too: an old record names options that have gone since."""
    if not isinstance(settings, dict) or not isinstance(other, dict):
        return settings
    return {k: still_there(v, other[k]) for k, v in settings.items() if k in other}


@pytest.mark.parametrize("name", BY_RECIPE)
def test_the_command_of_a_shipped_learner_is_its_recipe(name: str) -> None:
    recipe = json.loads((FOLDER / f"{name}.json").read_text())["recipe"]
    words = shlex.split(command_of(recipe))
    assert words[:3] == ["autocl", "train", recipe["name"]]
    again = json.loads(json.dumps(to_dict(read_order(get_recipe(recipe["name"]), words[3:]).recipe)))
    assert command_of(again) == command_of(recipe)
    for part in ("objective", "optimiser", "validation", "learner"):
        assert still_there(again[part], recipe[part]) == still_there(recipe[part], again[part])
    for key in ("steps", "seed", "batch_size", "init_from", "prototype"):
        assert again[key] == recipe[key]


def test_what_a_tool_made_names_the_tool() -> None:
    for name in set(zoo.names()) - set(BY_RECIPE):
        command = json.loads((FOLDER / f"{name}.json").read_text())["command"]
        assert command.startswith("python -m tools.")
        assert command in zoo.card(name)


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_itself_needs_no_options(name: str) -> None:
    assert command_of(to_dict(get_recipe(name))) == f"autocl train {name}"


def test_a_recipe_of_another_name_has_no_command() -> None:
    assert command_of({**to_dict(get_recipe("quick")), "name": "tiny"}) == ""
