"""`autocl bench`, from arguments to files."""

import json
import re
from functools import partial
from pathlib import Path

import pytest
import torch
from known_methods import coded_set, small_learner

from autocl import zoo
from autocl.baselines.base import method_names
from autocl.cli.main import run_command
from autocl.errors import InputError
from autocl.evaluation import subject
from autocl.evaluation.find import find_methods
from autocl.evaluation.rows import diverse_row, pair_row
from autocl.evaluation.subject import SetRef, learner_subject, open_learner
from autocl.figures.report import write_report
from autocl.files import write_tensors

bench_main = partial(run_command, "bench")


@pytest.fixture
def learner_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run's folder with a learner, in a world where every image set is a coded one."""

    def coded(name: str, split: str, **_: object) -> object:
        return coded_set(name, split)

    monkeypatch.setattr(subject, "load", coded)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    run = tmp_path / "runs" / "tiny"
    small_learner(5).save_pretrained(run / "best.safetensors", meta={"recipe": "quick"})
    recipe = {
        "name": "fast_two_task",
        "sources": [{"name": "omniglot"}, {"name": "mini_imagenet"}],
        "objective": {"acl": False},
        "streams": {"shots": 5},
        "validation": {"split": "mnist"},
    }
    (run / "recipe.json").write_text(json.dumps(recipe))
    lines = [{"step": s, "term/omniglot/1/own": 1.6 / (s + 1), "term/omniglot/1/back": 1.0} for s in range(5)]
    (run / "log.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return run


def test_everything_from_one_command_and_again_without_measuring(
    learner_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    args = ["all", "--learner", str(learner_file), "--run", str(learner_file), "--quick", "--out", "r"]
    bench_main(args)
    printed = capsys.readouterr().out
    assert "split-mnist, domain 5-task: measuring tiny" in printed
    assert "needs 10 outputs, the learner has 5" in printed
    page = Path("r/report.html").read_text()
    for name in ("two-task", "split-mnist", "vit", "emergence", "weights"):
        assert f'<section id="{name}">' in page
    assert "meta-learned at step 1" in page
    assert page.count("data:image/gif;base64,") == 1
    assert page.count('<table class="heat') >= 10
    # The page needs nothing else: pictures are in it, links stay within it.
    assert {a[:5] for a in re.findall(r'src="([^"]*)', page)} == {"data:"}
    assert {a[0] for a in re.findall(r'href="([^"]*)', page)} == {"#"}
    tables = Path("r/tables.md").read_text()
    assert "Omniglot + mini-ImageNet, no ACL" in tables, "the recipe beside the learner says acl = false"
    bench_main(args)
    again = capsys.readouterr().out
    assert "measuring" not in again
    assert "drawing" not in again


def test_what_a_run_says_of_its_training_is_read(learner_file: Path, tmp_path: Path) -> None:
    found = open_learner(str(learner_file))
    assert (found.name, found.training.recipe, found.training.acl) == ("tiny", "fast_two_task", False)
    assert (found.training.shots, found.training.validated_on) == (5, "mnist")
    alone = small_learner(5).save_pretrained(
        tmp_path / "solo.safetensors", meta={"recipe": "quick", "shots": "3"}
    )
    training = open_learner(alone).training
    assert (training.recipe, training.shots, training.acl) == ("quick", 3, True)


def test_methods_are_made_from_what_is_given(learner_file: Path) -> None:
    said: list[str] = []
    without = {s.name for s in find_methods(["all"], say=said.append)}
    assert {"sgd", "adam", "ewc"} <= without
    assert any("without nearest-mean" in line for line in said)
    encoder = open_learner(str(learner_file))
    assert "nearest-mean (features of tiny)" in {s.name for s in find_methods(["all"], encoder=encoder)}
    (demos,) = find_methods(["sgd"], diet="demos")
    (full,) = find_methods(["sgd"], diet="full")
    assert demos.name == "sgd (demos diet)"
    assert demos.fingerprint != full.fingerprint
    with pytest.raises(InputError, match="nearest-mean"):
        find_methods(["nearest-mean"])


def test_a_method_runs_beside_a_learner(learner_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bench_main(
        ["split-mnist", "--learner", str(learner_file), "--method", "sgd", "--diet", "demos", "--runs", "1",
         "--queries", "10"]
    )  # fmt: skip
    printed = capsys.readouterr().out
    assert "sgd (demos diet)" in printed
    stored = json.loads(Path("results/split-mnist/sgd--demos-diet/class-5-task.json").read_text())
    assert stored["incomparable"] == "only 10 queries of each task were asked"
    assert stored["paper_row"] == "SGD"
    assert stored["cost"]["gradient_steps"] > 0


def test_vectors_take_the_place_of_images(learner_file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "vectors"
    for name in ("cifar100", "cifar10", "mnist", "fashion_mnist", "svhn", "notmnist"):
        for split in ("train", "test"):
            rows = len(coded_set(name, split).images)
            write_tensors(
                folder / f"{name}-{split}.safetensors",
                {"features": torch.rand(rows, 64)},
                {"kind": "features"},
            )
    file = small_learner(10).save_pretrained(tmp_path / "frozen.safetensors")
    bench_main(["vit", "--learner", str(file), "--vectors", str(folder), "--quick", "--out", "v"])
    stored = json.loads(Path("v/vit/frozen/5-datasets.json").read_text())
    assert not stored["refused"]
    assert len(stored["tasks"]) == 5
    assert stored["paper_row"] == "ACL on a frozen ViT-B/16"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["split-minst"], "no table 'split-minst'"),
        (["emergence"], "--run"),
        (["shots", "--learner", "nowhere"], "'nowhere' is neither"),
        (["shots", "--method", "nowhere"], "no method 'nowhere'"),
    ],
)
def test_mistakes_are_named(learner_file: Path, args: list[str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        bench_main(args)


def test_without_anything_to_measure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(zoo, "names", list)
    with pytest.raises(InputError, match="zoo is empty"):
        bench_main(["shots"])
    with pytest.raises(InputError, match="no results"):
        write_report(tmp_path)


def test_gray_learners_get_gray_images_and_the_table_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def load(name: str, split: str, **options: object) -> object:
        asked.append(options)
        return coded_set(name, split)

    monkeypatch.setattr(subject, "load", load)
    gray = learner_subject(small_learner(5), "gray")
    assert "in gray" in gray.load(SetRef(name="cifar10", split="test")).notes
    assert not gray.load(SetRef(name="mnist", split="test")).notes
    assert asked == [{"size": 8, "channels": 1}] * 2
    assert partial(gray.load, SetRef(name="mnist", split="test"))() is gray.load(
        SetRef(name="mnist", split="test")
    )


def test_a_method_that_cannot_be_made_says_what_is_missing() -> None:
    said: list[str] = []
    some = find_methods(["all"], say=said.append)
    assert "without knn: it stands on a learner's encoder, give one" in " ".join(said)
    assert not any("keyword" in line for line in said)
    every = find_methods(["all"], encoder=open_learner("split-class"))
    assert len(every) == len(some) + len(said) == len(method_names())
    with pytest.raises(InputError, match="stands on a learner's encoder"):
        find_methods(["ridge"])


def test_what_a_shipped_learner_was_meta_trained_on_is_known() -> None:
    assert open_learner("three-task").training.sets == ("omniglot", "mini_imagenet", "tiny_imagenet")
    assert open_learner("quick").training.sets == ("glyphs",)
    # Only two- and three-task learners stand beside the paper's rows of those tables.
    beside = {name: pair_row(open_learner(name)) for name in zoo.names()}
    assert {name for name, row in beside.items() if row} == {"two-task", "two-task-noacl", "three-task"}
    assert diverse_row(open_learner("everyday")) == ""
