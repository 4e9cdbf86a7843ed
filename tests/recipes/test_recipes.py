"""Every recipe: complete, consistent, saved and read back; the paper's after SPEC §3."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from autocl.config import from_dict, to_dict
from autocl.data.augment import Augment
from autocl.data.catalog import describe
from autocl.data.locate import locate
from autocl.errors import FileError, InputError
from autocl.learner import LearnerConfig
from autocl.learner.config import ReadoutLearnerConfig
from autocl.objective import ObjectiveConfig
from autocl.recipes import RECIPES, get_recipe
from autocl.training.recipe import Optimiser, Recipe, Validation, differences, read_recipe
from autocl.training.run import samplers


@pytest.mark.parametrize("name", RECIPES)
def test_recipes_survive_json_and_know_their_name(name: str) -> None:
    recipe = get_recipe(name)
    assert recipe.name == name
    again = from_dict(Recipe, json.loads(json.dumps(to_dict(recipe))))
    assert again == recipe
    assert differences(again, recipe) == {}


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
    split = recipe.streams.tasks == 5
    assert recipe.batch_size == (64 if split else 32)
    assert recipe.streams.first_shot is not split
    assert recipe.optimiser.schedule == ("constant" if recipe.finetune else "transformer")
    assert recipe.objective.own_weights == ((0.1, 1.0) if name == "paper_two_task" else ())


def test_an_unknown_recipe_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"no recipe 'quik': did you mean 'quick'\? choose one of .*quick"):
        get_recipe("quik")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda: {"steps": 0}, "Recipe.steps must be at least 1, got 0"),
        (lambda: {"batch_size": -3}, "Recipe.batch_size must be at least 1, got -3"),
        (lambda: {"prototype": float("nan")}, "Recipe.prototype must be at least 0, got nan"),
        (lambda: {"carry_state": -1}, "Recipe.carry_state must be at least 0, got -1"),
        (lambda: {"validation": Validation(every=0)}, "Validation.every must be at least 1, got 0"),
        (lambda: {"optimiser": Optimiser(lr=-1.0)}, "Optimiser.lr must be at least 0, got -1.0"),
        (lambda: {"sources": ()}, "recipe quick: .*at least one image set"),
        (lambda: {"objective": ObjectiveConfig(own_weights=(1.0, 2.0))}, "each of its 1 image sets"),
        (lambda: {"stages": (get_recipe("two-task"),)}, r"stages \['two-task'\] have stages of their own"),
        (lambda: {"stages": (get_recipe("quick"),), "init_from": "quick"}, "starts from its stages"),
    ],
)
def test_impossible_values_are_refused_by_name(change: Callable[[], dict[str, Any]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        replace(get_recipe("quick"), **change())


def test_streams_with_more_labels_than_outputs_are_refused() -> None:
    recipe = get_recipe("fast_split_class")
    with pytest.raises(InputError, match=r"10 labels, but the learner only 4 outputs"):
        replace(recipe, learner=replace(recipe.learner, n_classes=4))


def test_differences_go_into_nested_fields() -> None:
    quick = get_recipe("quick")
    other = replace(quick, objective=ObjectiveConfig(acl=False), streams=replace(quick.streams, shots=7))
    found = differences(other, quick)
    assert found == {"streams.shots": "7, not 5", "objective.acl": "False, not True"}
    staged = get_recipe("two-task")
    slower = replace(staged.stages[0], optimiser=replace(staged.stages[0].optimiser, lr=1e-4))
    assert differences(replace(staged, stages=(slower,)), staged) == {
        "stages.0.optimiser.lr": "0.0001, not 0.002"
    }


@pytest.mark.parametrize("name", [n for n in RECIPES if get_recipe(n).stages])
def test_staged_recipes_are_those_of_shipped_learners(name: str) -> None:
    recipe = get_recipe(name)
    assert recipe.finetune
    *earlier, last = recipe.all_stages
    assert [stage.name for stage in earlier] == [stage.name for stage in recipe.stages]
    assert (last.name, last.stages, last.finetune) == (name, (), False)
    assert {stage.seed for stage in replace(recipe, seed=7).all_stages} == {7}
    # Each stage starts from the best of the one before: their learners must fit.
    for stage in earlier:
        a, b = stage.learner, last.learner
        assert isinstance(a, LearnerConfig)
        assert (
            replace(a, readout=b.readout, readout_keys=b.readout_keys, readout_hidden=b.readout_hidden) == b
        )


def test_twins_without_backward_terms_differ_in_nothing_else() -> None:
    two = differences(get_recipe("two-task-noacl"), get_recipe("two-task"))
    # The paper's schedule in the second stage: at two-task's rate it comes to keep most of the first task.
    slower = {"optimiser.schedule", "optimiser.warmup", "optimiser.lr", "optimiser.clip"}
    assert set(two) == {"name", "objective.acl", "stages.0.objective.acl", "validation.rule"} | slower
    photos = differences(get_recipe("two-task-fc100-noacl"), get_recipe("two-task-fc100"))
    # Fewer steps: the more it has, the less it keeps.
    shorter = {"steps", "validation.every"}
    assert set(photos) == {"name", "objective.acl", "init_from", "validation.rule"} | shorter


def test_learners_that_start_from_a_shipped_one_can() -> None:
    starts = {name: get_recipe(name) for name in RECIPES if get_recipe(name).init_from}
    assert set(starts) >= {"two-task-fc100", "two-task-fc100-noacl", "three-task"}
    for recipe in starts.values():
        assert recipe.init_from in RECIPES, "a start that nobody can make again"
        start = get_recipe(recipe.init_from).learner
        if isinstance(recipe.learner, ReadoutLearnerConfig):  # only the encoder goes on
            assert replace(recipe.learner.encoder, dropout=start.encoder.dropout) == start.encoder
        else:
            assert start == replace(recipe.learner, n_classes=start.n_classes)
    assert [s.name for s in get_recipe("three-task").sources] == ["omniglot", "mini_imagenet", "fc100"]


@pytest.mark.parametrize("text", ["", "{}", '{"name": 3}', "[1, 2]", "[" * 100000])
def test_a_damaged_recipe_is_named(tmp_path, text: str) -> None:
    (tmp_path / "recipe.json").write_text(text)
    with pytest.raises(FileError, match=r"recipe\.json: (damaged|not a recipe|it must be an object)"):
        read_recipe(tmp_path)


@pytest.mark.parametrize("name", RECIPES)
def test_the_data_of_a_recipe_can_serve_its_streams(name: str) -> None:
    recipe = get_recipe(name)
    if recipe.backbone:
        pytest.skip("features take minutes to compute; tests/training/test_on_features.py has its own")
    for source in [source for stage in recipe.all_stages for source in stage.sources]:
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


def test_the_papers_schedule_peaks_at_its_warmup() -> None:
    paper = Optimiser(schedule="transformer", warmup=5000, lr=123.0)

    def rate(step: int) -> float:
        return paper.rate(step, steps=600_000, width=256)

    assert rate(4999) == pytest.approx(8.84e-4, rel=1e-3)  # SPEC §3.1
    assert rate(0) == pytest.approx(256**-0.5 * 5000**-1.5)
    assert rate(19_999) == pytest.approx(rate(4999) / 2)
    assert max(range(0, 20_000, 7), key=rate) == pytest.approx(4999, abs=7)


def test_cosine_rises_linearly_and_ends_near_zero() -> None:
    ours = Optimiser(schedule="cosine", warmup=10, lr=2.0)
    rates = [ours.rate(s, steps=100, width=1) for s in range(100)]
    assert rates[0] == pytest.approx(0.2)
    assert rates[50] == pytest.approx(1.0)
    assert rates[99] == pytest.approx(1 + math.cos(0.99 * math.pi))
    assert rates[9:] == sorted(rates[9:], reverse=True)


def test_constant_with_and_without_warmup() -> None:
    assert Optimiser(lr=3.0).rate(0, steps=10, width=1) == 3.0
    slow = Optimiser(lr=3.0, warmup=4)
    assert [slow.rate(s, steps=10, width=1) for s in range(5)] == [0.75, 1.5, 2.25, 3.0, 3.0]
