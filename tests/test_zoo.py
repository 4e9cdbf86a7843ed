"""The learners that ship: loadable, small, described; a wrong name says what there is."""

from importlib.resources import files

import pytest

from autocl import zoo
from autocl.cli.main import main
from autocl.errors import InputError
from autocl.estimator.classifier import ContinualClassifier
from autocl.learner.find import find_learner


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
    assert cards - {"LICENCES"} == set(zoo.names())


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
