"""The one checker: what it refuses, what it says, and that JSON goes there and back."""

import json
import re
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import pytest

from autocl.config import Amount, Count, Share, check, from_dict, non_default, one_from_dict, to_dict
from autocl.errors import InputError
from autocl.learner import LearnerConfig, ReadoutLearnerConfig
from autocl.objective import ObjectiveConfig
from autocl.recipes import RECIPES, get_recipe
from autocl.training.recipe import Optimiser, Recipe, Validation


@dataclass(frozen=True, kw_only=True)
class Part:
    rate: Share = 0.5

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, kw_only=True)
class Other:
    size: Count = 1


@dataclass(frozen=True, kw_only=True)
class Whole:
    retired: ClassVar[dict[str, Any]] = {"old": False}

    name: str
    mode: Literal["fast", "slow"] = "fast"
    steps: Count = 3
    weights: tuple[Amount, ...] = ()
    pair: tuple[float, float] = (0.9, 0.99)
    limit: Count | None = None
    part: Part = field(default_factory=Part)
    either: Part | Other = field(default_factory=Part)

    def __post_init__(self) -> None:
        check(self)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"mode": "fats"}, "Whole.mode='fats' is not known: did you mean 'fast'? choose one of fast, slow"),
        ({"steps": 0}, "Whole.steps must be at least 1, got 0"),
        ({"steps": 2.5}, "Whole.steps must be a whole number, got 2.5"),
        ({"steps": True}, "Whole.steps must be a whole number, got True"),
        ({"steps": None}, "Whole.steps must be a whole number, got None"),
        ({"name": 7}, "Whole.name must be text, got 7"),
        ({"weights": (1.0, -1.0)}, "Whole.weights[1] must be at least 0, got -1.0"),
        ({"weights": [1.0]}, "Whole.weights must be a tuple, got [1.0]"),
        ({"pair": (1.0,)}, "Whole.pair must have 2 values, got (1.0,)"),
        ({"limit": 0}, "Whole.limit must be at least 1, got 0"),
        ({"part": 1}, "Whole.part must be a Part, got 1"),
    ],
)
def test_what_the_annotations_do_not_allow_is_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        Whole(**{"name": "x", **wrong})


def test_json_there_and_back() -> None:
    whole = Whole(name="x", weights=(1.0, 2), limit=4, part=Part(rate=1), either=Other(size=2))
    plain = json.loads(json.dumps(to_dict(whole)))
    assert plain["either"] == {"type": "Other", "size": 2}
    assert from_dict(Whole, plain) == whole
    assert from_dict(Whole, {"name": "x", "old": False}) == Whole(name="x")
    assert one_from_dict([Part, Other], to_dict(Other(), tagged=True), where="it") == Other()


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        ({"name": "x", "step": 3}, "Whole has no setting 'step': did you mean 'steps'?"),
        ({}, "Whole lacks name"),
        ([], "Whole must be an object"),
        ({"name": "x", "old": True}, "Whole.old=True is not supported any more"),
        ({"name": "x", "part": {"rate": 2}}, "Part.rate must be in [0, 1], got 2"),
        ({"name": "x", "part": "fast"}, "Whole.part must be a Part, got 'fast'"),
        ({"name": "x", "either": {"type": "Neither"}}, "Whole.either.type='Neither' is not known"),
        ({"name": "x", "weights": "ab"}, "Whole.weights must be a tuple"),
    ],
)
def test_json_that_does_not_belong_there_is_named(plain: Any, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        from_dict(Whole, plain)


def test_only_what_is_not_at_its_default_is_listed() -> None:
    assert non_default(Whole(name="x", part=Part(rate=1.0))) == {"name": "x", "part": {"rate": 1.0}}


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_comes_back_from_json(name: str) -> None:
    recipe = get_recipe(name)
    assert from_dict(Recipe, json.loads(json.dumps(to_dict(recipe)))) == recipe


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LearnerConfig(mixer="gated_delta"), "did you mean 'delta'"),
        (lambda: LearnerConfig(readout="rigde"), "did you mean 'ridge'"),  # type: ignore[arg-type]
        (lambda: LearnerConfig(labels="delay"), "did you mean 'delayed'"),  # type: ignore[arg-type]
        (lambda: LearnerConfig(norm="post"), "choose one of skip, pre"),  # type: ignore[arg-type]
        (lambda: LearnerConfig(standardise="pixel"), "choose one of image, set"),  # type: ignore[arg-type]
        (lambda: Optimiser(schedule="cosin"), "did you mean 'cosine'"),  # type: ignore[arg-type]
        (lambda: Validation(rule="papre"), "did you mean 'paper'"),  # type: ignore[arg-type]
        (lambda: ObjectiveConfig(boundaries="first"), "choose one of every, last"),  # type: ignore[arg-type]
        (lambda: ReadoutLearnerConfig(height=0), "height must be at least 1"),
    ],
)
def test_a_misspelt_setting_is_not_silently_another_one(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        make()
