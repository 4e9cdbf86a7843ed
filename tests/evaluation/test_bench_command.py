"""`autocl bench`, from arguments to files; `autocl zoo verify`, which compares a learner with its card."""

import json
import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NoReturn

import pytest
from known_methods import Known, OnlyLast, coded_set, known_entry, small_learner

from autocl import zoo
from autocl.baselines.base import method_names
from autocl.cli.main import main, run_command
from autocl.errors import AutoclError, DataError, InputError
from autocl.evaluation import protocol
from autocl.evaluation.bench import Check, quick_check, verify
from autocl.evaluation.entry import Entry, find_methods, learner_entry, open_learner
from autocl.evaluation.protocol import SetRef
from autocl.evaluation.results import read_results
from autocl.evaluation.stored import entry_named
from autocl.figures.report import write_report

bench_main = partial(run_command, "bench")


@pytest.fixture
def learner_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run's folder with a learner, in a world where every image set is a coded one."""

    def coded(name: str, split: str, **_: object) -> object:
        return coded_set(name, split)

    monkeypatch.setattr(protocol, "load", coded)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    run = tmp_path / "runs" / "tiny"
    meta = {
        "recipe": "fast_two_task", "sets": "omniglot mini_imagenet", "scenario": "domain", "tasks": "2",
        "ways": "5", "shots": "5", "acl": "false", "validated_on": "mnist",
    }  # fmt: skip
    small_learner(5).save_pretrained(run / "best.safetensors", meta=meta)
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
    page = Path("r/report/index.html").read_text()
    for name in ("two-task", "split-mnist", "emergence", "weights"):
        assert f'<section id="{name}">' in page
    assert "meta-learned at step 1" in page
    assert page.count("data:image/gif;base64,") == 1
    assert page.count('<table class="heat') >= 10
    # The page needs nothing else: pictures are in it, links stay within it.
    assert {a[:5] for a in re.findall(r'src="([^"]*)', page)} == {"data:"}
    links = set(re.findall(r'href="([^"]*)', page))
    assert {"#two-task", "#split-mnist"} <= links
    assert {link[1:] for link in links} <= set(re.findall(r'id="([^"]*)', page))
    assert all(link.startswith("#") for link in links)
    stored = {p.name: p.read_bytes() for p in Path("r").glob("*.jsonl")}
    assert {"two-task.jsonl", "split-mnist.jsonl", "emergence.jsonl", "weights.jsonl"} <= set(stored)
    bench_main(args)
    again = capsys.readouterr().out
    assert "measuring" not in again
    assert "drawing" not in again
    assert {p.name: p.read_bytes() for p in Path("r").glob("*.jsonl")} == stored
    bench_main(["meta-validation", *args[1:-1], "afresh"])
    fresh = Path("afresh/meta-validation.jsonl").read_bytes()
    assert fresh == stored["meta-validation.jsonl"], "two runs give the same lines"
    bench_main(["report", "--out", "r"])
    assert Path("r/report/index.html").read_text() == page


def test_what_a_file_says_of_its_training_is_read(learner_file: Path, tmp_path: Path) -> None:
    found = open_learner(str(learner_file))
    assert (found.name, found.trained.recipe, found.trained.acl) == ("tiny", "fast_two_task", False)
    assert (found.trained.sets, found.trained.tasks) == (("omniglot", "mini_imagenet"), 2)
    assert (found.trained.shots, found.trained.validated_on) == (5, "mnist")
    assert found.trained.architecture == "identity + srwm"
    alone = small_learner(5).save_pretrained(tmp_path / "solo.safetensors", meta={"recipe": "quick"})
    trained = open_learner(alone).trained
    assert (trained.recipe, trained.sets, trained.shots, trained.acl) == ("quick", (), 0, True)


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
    found = read_results(Path("results"), "split-mnist")
    stored = {result.key: result for result in found}
    sgd = stored["sgd (demos diet)", "class 5-task"]
    assert sgd.incomparable == "only 10 queries of each task were asked"
    assert sgd.trained.recipe == "sgd"
    assert sgd.cost["gradient_steps"] > 0
    assert not Path("results/report").exists(), "made when it is asked for"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["split-minst"], "no table 'split-minst'"),
        (["emergence"], "--run"),
        (["shots", "--row", "ECW"], "no row 'ECW'"),
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

    monkeypatch.setattr(protocol, "load", load)
    gray = learner_entry(small_learner(5), "gray")
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
    inside: list[str] = []
    every = find_methods(["all"], encoder=open_learner("split-class"), say=inside.append)
    assert [line.split(":")[0] for line in inside] == ["without dualprompt", "without l2p"]
    assert len(every) + 2 == len(some) + len(said) == len(method_names())
    with pytest.raises(InputError, match="stands on a learner's encoder"):
        find_methods(["ridge"])


def check_of(entry: Entry) -> Check:
    return quick_check(entry, "split-mnist")


def test_the_same_learner_agrees_and_another_differs() -> None:
    check = check_of(known_entry(Known()))
    assert check["cells"].keys() == {"domain 5-task", "class 2-task", "class 5-task"}
    assert {c.status for c in verify(known_entry(Known()), check)} == {"agrees"}
    (domain, *_) = verify(known_entry(OnlyLast()), check)
    assert (domain.card, domain.now, domain.status) == (100.0, 20.0, "differs")


def test_other_images_are_named_and_judge_nothing() -> None:
    entry = known_entry(Known())
    check = check_of(entry)
    other = Check(**{**check, "data": {**check["data"], "mnist/test": "0" * 16}})
    compared = verify(known_entry(OnlyLast()), other)
    assert {c.status for c in compared} == {"other data"}
    assert compared[0].reason == "other images than those of the card: mnist/test"


def test_missing_images_and_missing_cells_are_said() -> None:
    entry = known_entry(Known())
    check = check_of(entry)

    def nowhere(_: object) -> NoReturn:
        raise DataError("get it with autocl data get mnist")

    for compared in verify(replace(entry, load=nowhere), check):
        assert (compared.now, compared.status) == (None, "not measured")
        assert "autocl data get mnist" in compared.reason
    (gone,) = verify(entry, Check(**{**check, "cells": {"class 9-task": 50.0}}))
    assert gone.reason == "the table has no such cell any more"


def test_few_outputs_leave_cells_out_of_the_check() -> None:
    assert check_of(replace(known_entry(Known()), outputs=2))["cells"].keys() == {"domain 5-task"}


def test_the_command_refuses_a_learner_without_check(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zoo, "record", lambda name: {"fingerprint": "f"})
    with pytest.raises(SystemExit) as end:
        main(["zoo", "verify", "quick"])
    assert end.value.code == 2
    assert "the card of quick has no check to compare with; those with one: none" in capsys.readouterr().err


def test_all_makes_every_stored_line_again_as_it_was_made(
    learner_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(zoo, "names", list)
    bench_main(["split-mnist", "--method", "sgd", "--diet", "demos", "--runs", "1", "--queries", "10"])
    bench_main(["split-mnist", "--learner", str(learner_file), "--runs", "1", "--queries", "10"])
    lines = Path("results/split-mnist.jsonl").read_text()
    stale = lines.replace('"fingerprint":"', '"fingerprint":"old', 1)  # sgd's come first
    Path("results/split-mnist.jsonl").write_text(stale)
    capsys.readouterr()
    bench_main(["all", "--plan"])
    said = " ".join(capsys.readouterr().out.split())
    assert "class 2-task: sgd (demos diet) would be measured" in said
    assert said.count("would be measured") == 1
    assert "the lines of tiny stay as they are: tiny does not ship" in said
    assert Path("results/split-mnist.jsonl").read_text() == stale
    bench_main(["all"])
    assert Path("results/split-mnist.jsonl").read_text() == lines, "one run, ten queries, as before"
    assert not Path("results/shots.jsonl").exists(), "sgd has no line there"
    capsys.readouterr()
    bench_main(["all", "--plan", "--runs", "2"])
    assert "sgd (demos diet) would be measured, 2 runs" in " ".join(capsys.readouterr().out.split())


def test_all_keeps_demos_and_forward_of_a_line(
    learner_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(zoo, "names", list)
    asked = ["--runs", "1", "--queries", "10", "--demos", "paper", "--forward"]
    bench_main(["split-mnist", "--method", "sgd", "--diet", "demos", *asked])
    lines = Path("results/split-mnist.jsonl").read_text()
    Path("results/split-mnist.jsonl").write_text(lines.replace('"fingerprint":"', '"fingerprint":"old'))
    bench_main(["all"])
    assert "another fingerprint" in " ".join(capsys.readouterr().out.split())
    assert Path("results/split-mnist.jsonl").read_text() == lines


def test_world_has_no_plan_and_measures_nothing_then() -> None:
    with pytest.raises(InputError, match="--plan"):
        bench_main(["world", "--plan"])


@pytest.mark.parametrize(
    "name",
    ["quick", "adam", "ewc (demos diet)", "nearest-mean (features of quick)", "ridge (features of quick)"],
)
def test_an_entry_is_found_by_its_name_in_tables(name: str) -> None:
    assert entry_named(name).name == name


@pytest.mark.parametrize(
    "name", ["tiny", "tiny)", "tiny (features of lite2)", "ridge (features of vit:none)"]
)
def test_what_is_not_here_cannot_be_found(name: str) -> None:
    with pytest.raises(AutoclError):
        entry_named(name)
