"""The learners that ship: loadable, small, described, and made again by the command on their card."""

import json
import re
import shlex
import shutil
from importlib.resources import files
from pathlib import Path

import pytest
from tools.training_command import command_of

from autocl import zoo
from autocl.cli.main import main
from autocl.cli.train import read_order, with_beginnings
from autocl.config import from_dict, to_dict
from autocl.errors import InputError
from autocl.estimator.classifier import ContinualClassifier
from autocl.files import read_tensors
from autocl.learner.find import find_learner
from autocl.recipes import RECIPES, get_recipe
from autocl.training.recipe import Recipe


def test_a_wrong_name_is_answered_with_the_right_ones():
    with pytest.raises(InputError, match="'nobody' is neither a name in the zoo") as caught:
        find_learner("nobody")
    assert all(name in str(caught.value) for name in zoo.names())


def test_the_classifier_too_says_who_is_there():
    with pytest.raises(InputError, match="'nobody' is neither a name in the zoo") as caught:
        ContinualClassifier("nobody").fit([[0.0] * 16], [0])
    assert all(name in str(caught.value) for name in zoo.names())


@pytest.mark.parametrize("name", zoo.names())
def test_every_learner_loads_is_small_and_has_a_card(name):
    learner = find_learner(name)
    assert not learner.training
    assert len((files("autocl.zoo") / f"{name}.safetensors").read_bytes()) < 4_000_000
    assert name in zoo.card(name)


def test_there_is_no_card_without_a_learner():
    cards = {
        file.name.removesuffix(".md") for file in files("autocl.zoo").iterdir() if file.name.endswith(".md")
    }
    assert cards == set(zoo.names())


def test_the_licences_name_every_learner():
    told = (files("autocl.zoo") / "LICENCES.txt").read_text()
    assert [name for name in zoo.names() if f"`{name}`" not in told] == []


def test_every_learner_has_a_record_of_its_own_weights():
    records = json.loads((files("autocl.zoo") / zoo.RECORDS).read_text())
    assert list(records) == zoo.names()
    for name in zoo.names():
        assert zoo.record(name)["fingerprint"] == find_learner(name).fingerprint()


def test_the_command_lists_and_prints_cards(capsys):
    main(["zoo"])
    listed = capsys.readouterr().out
    assert all(name in listed for name in zoo.names())
    for name in zoo.names():
        main(["zoo", name])
        assert zoo.card(name) in capsys.readouterr().out
    main(["zoo", "--help"])
    assert "examples:" in capsys.readouterr().out


def test_a_wrong_name_on_the_command_line_ends_with_status_2(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["zoo", "nobody"])
    assert stop.value.code == 2
    assert "no shipped learner 'nobody'" in capsys.readouterr().err


BY_RECIPE = [name for name in zoo.names() if "recipe" in zoo.record(name)]


@pytest.mark.parametrize("name", BY_RECIPE)
def test_the_command_of_a_shipped_learner_is_its_recipe(name: str) -> None:
    # `from_dict` refuses a setting that is neither known nor retired with the value that the record has.
    recipe = from_dict(Recipe, zoo.record(name)["recipe"])
    words = shlex.split(command_of(to_dict(recipe)))
    assert words[:3] == ["autocl", "train", recipe.name]
    assert read_order(get_recipe(recipe.name), words[3:]).recipe == recipe


@pytest.mark.parametrize("name", sorted(BY_RECIPE))
def test_a_learner_started_from_nothing_or_from_the_learner_that_ships(name: str) -> None:
    record = zoo.record(name)
    if start := record["recipe"]["init_from"]:
        assert record["started_from"]["fingerprint"] == zoo.record(start)["fingerprint"]
    else:
        assert not record.get("started_from")


@pytest.mark.parametrize("name", zoo.names())
def test_a_card_has_commands_that_run_and_no_private_path(name: str) -> None:
    card = zoo.card(name)
    assert not re.search(r"(^|[^\w.])(/work|/home|/root|/tmp|~)/", card)
    for line in re.findall(r"^    (autocl train .*)$", card, re.MULTILINE):
        words = shlex.split(line)
        order = read_order(get_recipe(words[2]), words[3:])
        start = order.recipe.init_from
        assert not start or start in zoo.names(), f"{line}: nobody else has {start}"
        if order.from_nothing:
            assert not any(stage.init_from for stage in with_beginnings(order.recipe).all_stages)
    assert "runs/" not in card, "a folder of somebody's own"
    assert ("recipe" not in zoo.record(name)) or "    autocl train " in card


@pytest.mark.parametrize("name", sorted(set(zoo.names()) - set(BY_RECIPE)))
def test_what_a_card_written_by_hand_measured_is_what_results_say(name: str, tmp_path: Path) -> None:
    from tools.ship import IN_WORLD, ZOO, fill_card

    for other in {name, *IN_WORLD}:
        shutil.copy(ZOO / f"{other}.safetensors", tmp_path)
    (tmp_path / f"{name}.md").write_text(zoo.card(name), encoding="utf-8")
    results = Path(__file__).parent.parent / "results"
    made = fill_card(name, results, folder=tmp_path).read_text(encoding="utf-8")
    assert made == zoo.card(name), "run: python -m tools.ship"


def test_records_and_files_have_no_path_of_a_machine() -> None:
    texts = [(files("autocl.zoo") / zoo.RECORDS).read_text()]
    for name in zoo.names():
        with zoo.file(name) as file:
            texts.append(json.dumps(read_tensors(file, kind="learner")[1]))
    assert [t for text in texts for t in re.findall(r'(?:/work|/home|/root|/tmp)/[^"]*', text)] == []


def test_what_a_tool_made_names_the_tool() -> None:
    for name in set(zoo.names()) - set(BY_RECIPE):
        command = zoo.record(name)["command"]
        assert command.startswith("python -m tools.")
        assert command in zoo.card(name)


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_itself_needs_no_options(name: str) -> None:
    assert command_of(to_dict(get_recipe(name))) == f"autocl train {name}"


def test_a_recipe_of_another_name_has_no_command() -> None:
    assert command_of({**to_dict(get_recipe("quick")), "name": "tiny"}) == ""
