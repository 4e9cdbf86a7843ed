"""Every recipe: complete, consistent, saved and read back; the paper's after SPEC §3."""

import json
from dataclasses import replace

import pytest

from autocl.data.augment import Augment
from autocl.data.catalog import describe
from autocl.data.locate import locate
from autocl.errors import FileError, InputError
from autocl.objective import ObjectiveConfig
from autocl.recipes import RECIPES, get_recipe
from autocl.training.recipe import (
    Optimiser,
    Validation,
    differences,
    read_recipe,
    recipe_from_dict,
    recipe_to_dict,
)
from autocl.training.sources import samplers


@pytest.mark.parametrize("name", RECIPES)
def test_recipes_survive_json_and_know_their_name(name: str) -> None:
    recipe = get_recipe(name)
    assert recipe.name == name
    again = recipe_from_dict(json.loads(json.dumps(recipe_to_dict(recipe))))
    assert again == recipe
    assert differences(again, recipe) == []


@pytest.mark.parametrize("name", [n for n in RECIPES if n.startswith("paper")])
def test_the_papers_recipes_have_none_of_our_changes(name: str) -> None:
    recipe = get_recipe(name)
    assert all(augment == Augment() for augment in recipe.augments)
    assert recipe.prototype == 0
    assert recipe.optimiser.clip == 0
    assert recipe.optimiser.betas == (0.9, 0.995)
    assert recipe.optimiser.eps == 1e-9
    assert recipe.learner.label_scale == 1
    assert recipe.learner.readout == "linear"
    assert recipe.streams.drawing == "independent"
    assert recipe.streams.queries == 1
    assert recipe.streams.shots == 15
    split = "split" in name
    assert recipe.batch_size == (64 if split else 32)
    assert recipe.streams.first_shot is not split
    assert recipe.optimiser.schedule == ("constant" if split else "transformer")
    assert recipe.objective.own_weights == ((0.1, 1.0) if name == "paper_two_task" else ())


def test_an_unknown_recipe_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"no recipe 'quik': did you mean 'quick'"):
        get_recipe("quik")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": 0}, "steps must be at least 1, got 0"),
        ({"batch_size": -3}, "batch_size must be at least 1, got -3"),
        ({"prototype": float("nan")}, "prototype must be at least 0, got nan"),
        ({"validation": Validation(every=0)}, "validation.every must be at least 1, got 0"),
        ({"optimiser": Optimiser(accumulate=0)}, "optimiser.accumulate must be at least 1, got 0"),
        ({"optimiser": Optimiser(lr=-1.0)}, "optimiser.lr must be at least 0, got -1.0"),
        ({"carry_state": -1}, "carry_state must be at least 0, got -1"),
        ({"sources": ()}, "at least one image set"),
        ({"objective": ObjectiveConfig(own_weights=(1.0, 2.0))}, "each of its 1 image sets"),
    ],
)
def test_impossible_values_are_refused_by_name(changes: dict, message: str) -> None:
    with pytest.raises(InputError, match=rf"recipe quick: .*{message}"):
        replace(get_recipe("quick"), **changes)


def test_streams_with_more_labels_than_outputs_are_refused() -> None:
    recipe = get_recipe("fast_split_class")
    with pytest.raises(InputError, match=r"10 labels, but the learner only 4 outputs"):
        replace(recipe, learner=replace(recipe.learner, n_classes=4))


def test_differences_go_into_nested_fields() -> None:
    quick = get_recipe("quick")
    other = replace(quick, objective=ObjectiveConfig(acl=False), streams=replace(quick.streams, shots=7))
    found = differences(other, quick)
    assert "streams.shots: 7, not 5" in found
    assert "objective.acl: False, not True" in found


def test_the_prototype_weight_falls_linearly() -> None:
    quick = replace(get_recipe("quick"), prototype=2.0)
    assert quick.prototype_weight(10**6) == 2.0
    falling = replace(quick, prototype_until=100)
    assert [falling.prototype_weight(s) for s in (0, 50, 100, 200)] == [2.0, 1.0, 0.0, 0.0]


@pytest.mark.parametrize("text", ["", "{}", '{"streams_kind": "Other"}', "[1, 2]"])
def test_a_damaged_recipe_is_named(tmp_path, text: str) -> None:
    (tmp_path / "recipe.json").write_text(text)
    with pytest.raises(FileError, match=r"recipe\.json: not a recipe of this version"):
        read_recipe(tmp_path)


@pytest.mark.parametrize("name", RECIPES)
def test_the_data_of_a_recipe_can_serve_its_streams(name: str) -> None:
    recipe = get_recipe(name)
    for source in recipe.sources:
        info = describe(source.name)
        splits = ("train",) if source.name == "tiny_imagenet" else ("train", "val")
        if info.make is None and any(locate(info, split) is None for split in splits):
            # Some sets (FC100) can only be downloaded: without the files there is nothing to sample from.
            pytest.skip(f"{info.title} is not on this machine")
    few_glyphs = tuple(replace(s, classes=min(s.classes, 100)) for s in recipe.sources)  # draws in a moment
    for sampler in samplers(replace(recipe, sources=few_glyphs)):
        batch = sampler.batch(3)
        assert len(batch.tasks[0].demos) == recipe.batch_size
        assert max(int(t.demo_labels.max()) for t in batch.tasks) < recipe.learner.n_classes
        few = replace(batch, pool=batch.pool[:4])
        images = sampler.images(few, channels=recipe.learner.channels, augment=recipe.augments)
        assert images.isfinite().all()
