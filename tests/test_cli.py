"""The command line as people use it: options, errors in one line, and exit statuses."""

import contextlib
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from rich.console import Console

from autocl import __version__, zoo
from autocl.baselines.base import get_method
from autocl.cli import features as command
from autocl.cli.main import COMMANDS, main, run_command
from autocl.cli.terminal import say, tabulate
from autocl.cli.train import default_folder, read_order, with_beginnings
from autocl.encoders.backbones import callable_backbone
from autocl.errors import DataError, InputError
from autocl.learner.find import learner_file
from autocl.recipes import RECIPES, get_recipe

TINY = """
    --sources.0.classes 24 --streams.ways 2 --streams.shots 2 --streams.queries 4 --streams.pool-classes 6
    --streams.pool-images 4 --learner.n-classes 2 --learner.height 16 --learner.width 16
    --learner.encoder.width 4 --learner.model-width 16 --learner.heads 2 --learner.depth 1
    --validation.every 2 --validation.batches 1 --batch-size 4 --steps 3
"""
CITED = re.compile("DESIGN|SPEC|REVIEW|CONTRIBUTING")
"""Documents that nobody has who installed the package."""


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def failure(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    """The one line that a command fails with; its status must be 2."""
    with pytest.raises(SystemExit) as end:
        main(args)
    assert end.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("autocl: ")
    assert error.count("\n") == 1
    return error


def shown(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    """What a command prints before it ends with status 0."""
    with pytest.raises(SystemExit) as end:
        main(args)
    assert not end.value.code
    return capsys.readouterr().out


def test_train_resume_and_what_they_leave(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "run"
    main(["train", "quick", *TINY.split(), "--out", str(out), "--objective.no-acl", "--seed", "9"])
    assert f"the best learner by validation is {out}/best.safetensors" in capsys.readouterr().err
    recipe = json.loads((out / "recipe.json").read_text())
    assert (recipe["seed"], recipe["objective"]["acl"], recipe["streams"]["shots"]) == (9, False, 2)
    assert not any(recipe["sources"][0]["augment"].values())
    main(["train", "--resume", str(out), "--device", "cpu"])
    assert "best learner" in capsys.readouterr().err
    assert "another recipe (steps" in failure(capsys, "train", "--resume", str(out), "--steps", "9")
    assert "leave --out" in failure(capsys, "train", "--resume", str(out), "--out", str(tmp_path))
    assert "leave --out" in failure(capsys, "train", "--device", "cpu", "--resume", str(out), "--dry-run")
    assert "holds a run" in failure(capsys, "train", "quick", *TINY.split(), "--out", str(out))


def test_dry_run_shows_recipe_size_time_and_memory_and_writes_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    main(["train", "quick", *TINY.split(), "--dry-run"])
    out = capsys.readouterr().out
    text = " ".join(out[out.rindex("learner:") :].split())
    assert "parameters" in text
    assert "4 a step, 24 images to encode" in text
    assert "minutes for 3 steps" in text
    assert "MB at the peak" in text
    shown = json.loads(out[: out.rindex("learner:")])
    assert shown["learner"]["model_width"] == 16
    assert list(tmp_path.iterdir()) == []


def test_any_field_can_be_set() -> None:
    options = (
        "--streams.max-tasks 3 --streams.return-chance 0.5 --sources.0.no-rotations "
        "--objective.own-weights 1 2 3 4 --learner.encoder.kind identity --optimiser.betas 0.8 0.9 "
        "--sources.0.augment.rotate 3 --validation.rule paper --bf16 --carry-state 2"
    )
    recipe = read_order(get_recipe("fast_everyday"), options.split()).recipe
    assert recipe.streams.max_tasks == 3
    assert recipe.streams.return_chance == 0.5
    assert not recipe.sources[0].rotations
    assert recipe.sources[0].augment.rotate == 3
    assert recipe.sources[0].augment.scale == get_recipe("fast_everyday").sources[0].augment.scale
    assert recipe.objective.own_weights == (1, 2, 3, 4)
    assert recipe.learner.encoder.kind == "identity"
    assert recipe.optimiser.betas == (0.8, 0.9)
    assert recipe.validation.rule == "paper"
    assert recipe.bf16
    assert recipe.carry_state == 2


@pytest.mark.parametrize("name", RECIPES)
def test_no_option_leaves_a_recipe_as_it_is(name: str) -> None:
    assert read_order(get_recipe(name), []).recipe == get_recipe(name)


def test_augmentation_can_be_switched_on_where_there_is_none() -> None:
    order = read_order(get_recipe("quick"), ["--sources.0.augment.rotate", "5"])
    assert order.recipe.sources[0].augment.rotate == 5


def test_errors_are_one_line_and_exit_with_2(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "no recipe 'nope': choose one of" in failure(capsys, "train", "nope")
    assert "is not a run" in failure(capsys, "train", "--resume", str(tmp_path))
    assert "name a recipe before its options" in failure(capsys, "train", "--device", "cpu")


@pytest.mark.parametrize(
    ("args", "meant"),
    [
        (["trian"], "train"),
        (["train", "fast_evryday"], "fast_everyday"),
        (["zoo", "everday"], "everyday"),
        (["tour", "--learner", "split_clas"], "split-class"),
        (["bench", "split_minst"], "split-mnist"),
        (["bench", "split-mnist", "--method", "ecw"], "ewc"),
        (["data", "show", "fashion-mnits"], "fashion_mnist"),
    ],
)
def test_a_slip_is_answered_with_the_nearest_name(
    capsys: pytest.CaptureFixture[str], args: list[str], meant: str
) -> None:
    assert f"did you mean '{meant}'?" in failure(capsys, *args)


def test_hyphens_and_underscores_are_the_same(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    main(["zoo", "Split_Class"])
    assert capsys.readouterr().out.strip() == zoo.card("split-class").strip()
    for typed, named in (("fast-split-class", "fast_split_class"), ("gemcl_map", "gemcl-map")):
        assert f"usage: autocl train {named} " in shown(capsys, "train", typed, "--help")
    assert get_method("online_ewc").name == "online-ewc"


def test_a_path_goes_before_a_name_in_the_zoo_that_is_only_nearly_the_same(tmp_path: Path) -> None:
    own = tmp_path / "split_class" / "best.safetensors"
    own.parent.mkdir()
    own.touch()
    with contextlib.chdir(tmp_path):
        with learner_file("split_class") as file:
            assert file.resolve() == own
        with learner_file("split-class") as file:
            assert file.resolve() != own


def test_other_options_are_another_folder_and_the_same_ones_the_same() -> None:
    quick = get_recipe("quick")
    plain = default_folder(quick, quick)
    forgetful = read_order(quick, ["--objective.no-acl"]).recipe
    longer = read_order(quick, ["--steps", "9"]).recipe
    folders = {default_folder(recipe, quick) for recipe in (quick, forgetful, longer)}
    assert plain == Path("runs/quick-seed1")
    assert len(folders) == 3
    assert default_folder(forgetful, quick) in folders
    assert default_folder(read_order(quick, ["--seed", "4"]).recipe, quick) == Path("runs/quick-seed4")


def test_the_commands_of_the_readme_do_not_meet_in_one_folder(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    main(["train", "quick", *TINY.split()])
    main(["train", "quick", *TINY.split(), "--objective.no-acl"])
    assert len(list((tmp_path / "runs").iterdir())) == 2
    capsys.readouterr()
    assert "holds a run" in failure(capsys, "train", "quick", *TINY.split())


@pytest.mark.parametrize("option", ["--stepz", "--streams.max-tasks"])
def test_unknown_options_exit_with_2(capsys: pytest.CaptureFixture[str], option: str) -> None:
    with pytest.raises(SystemExit) as end:
        main(["train", "quick", option, "3"])
    assert end.value.code == 2
    captured = capsys.readouterr()
    assert option in captured.err + captured.out


def test_debug_shows_where_an_error_comes_from() -> None:
    with pytest.raises(InputError):
        main(["--debug", "train", "nope"])


def test_version_and_table_of_contents_need_no_torch() -> None:
    code = "import sys; from autocl.cli.main import main; main([sys.argv[1]]); print('torch' in sys.modules)"
    for option, shown in (("--version", __version__), ("--help", "usage: autocl COMMAND")):
        done = subprocess.run(
            [sys.executable, "-c", code, option], capture_output=True, text=True, check=True
        )
        assert shown in done.stdout
        assert done.stdout.splitlines()[-1] == "False"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_help_is_short_and_ends_with_examples(capsys: pytest.CaptureFixture[str], name: str) -> None:
    main([name, "--help"])
    text = capsys.readouterr().out
    help_, _, examples = text.partition("\nexamples:\n")
    assert f"usage: autocl {name}" in help_
    assert len(help_.splitlines()) <= 40
    assert f"autocl {name}" in examples
    assert not CITED.search(text)


def test_help_of_train_lists_recipes_and_that_of_a_recipe_its_fields(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["train"])
    text = capsys.readouterr().out
    assert all(name in text for name in RECIPES)
    text = shown(capsys, "train", "quick", "--help")
    assert not CITED.search(text)
    assert all(option in text for option in ("--out", "--dry-run", "--streams.shots", "--objective.no-acl"))


def test_completion_is_written_for_all_commands_and_for_one(capsys: pytest.CaptureFixture[str]) -> None:
    for args, words in ((["--tyro-print-completion", "bash"], [*COMMANDS, "--watch"]), (
        ["learn", "--tyro-print-completion", "zsh"], ["--watch", "--state"]
    )):  # fmt: skip
        script = shown(capsys, *args)
        assert all(word in script for word in words)


def test_brackets_in_names_are_not_markup(capsys: pytest.CaptureFixture[str]) -> None:
    say("[red]a[/red].png [/x]")
    Console().print(tabulate(["file"], [["[bold]b.png"]]))
    assert capsys.readouterr().out == "[red]a[/red].png [/x]\nfile       \n[bold]b.png\n"


def test_reader_that_has_seen_enough__no_complaint() -> None:
    command = [sys.executable, "-m", "autocl", "zoo", "everyday"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 141


def test_ten_classes_are_too_few_to_train_and_the_line_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for i in range(10):
        (tmp_path / "mine" / str(i)).mkdir(parents=True)
    folder = tmp_path / "mine"
    with pytest.raises(SystemExit) as ended:
        main(["train", "fast_split_class", "--sources.0.name", str(folder), "--dry-run"])
    assert ended.value.code == 2
    said = capsys.readouterr().err.strip()
    assert "\n" not in said
    assert "has 10 classes, and fast_split_class takes 50" in said
    assert f"autocl eval everyday --data {folder}" in said


@pytest.fixture(autouse=True)
def _colour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOCL_CACHE", str(tmp_path / "cache"))

    def colour(images: list[Image.Image]) -> np.ndarray:
        return np.stack([np.asarray(image, np.float32).mean((0, 1)) for image in images])

    monkeypatch.setattr(command, "get_backbone", lambda name: callable_backbone(colour, name=name))


def test_sets_and_folders_give_a_line_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for label in ("red", "blue"):
        (tmp_path / "photos" / label).mkdir(parents=True)
        Image.new("RGB", (9, 9), label).save(tmp_path / "photos" / label / "1.png")
    run_command("features", ["mine", "digits", str(tmp_path / "photos"), "--workers", "1"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["digits train", "digits test", "photos all"]
    assert "2 vectors of 3, 2 classes" in lines[2]
    run_command("features", ["mine", "digits/test"])
    (line,) = capsys.readouterr().out.splitlines()
    assert line.split("hash")[1] == lines[1].split("hash")[1]


def test_words_that_name_nothing_are_refused(tmp_path: Path) -> None:
    for word in ("digitz", str(tmp_path / "nowhere"), "digits/nothing"):
        with pytest.raises(DataError, match=r"digitz|nowhere|nothing"):
            run_command("features", ["mine", word])
    with pytest.raises(InputError, match="nothing to compute"):
        command.features("mine", ())


def test_a_run_from_nothing_has_the_recipes_it_starts_from_as_stages() -> None:
    order = read_order(get_recipe("fc100-encoder"), ["--from-nothing", "--seed", "3"])
    whole = with_beginnings(order.recipe)
    names = ["fast_two_task", "two-task", "two-task-fc100", "fc100-encoder"]
    assert [stage.name for stage in whole.all_stages] == names
    assert {stage.seed for stage in whole.all_stages} == {3}
    assert not any(stage.init_from for stage in whole.all_stages)
    assert whole.all_stages[-1] == replace(order.recipe, init_from="", finetune=False)
    quick = get_recipe("quick")
    assert with_beginnings(quick) == quick
    with pytest.raises(InputError, match=r"no recipe makes my\.safetensors"):
        with_beginnings(replace(quick, init_from="my.safetensors"))
