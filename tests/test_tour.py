"""The demo at toy size: the table is true, the page is whole, and it says what is missing."""

import re
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
import torch
from rich.console import Console

from autocl import zoo
from autocl.baselines.incontext import InContext
from autocl.cli.main import run_command
from autocl.passage import run_streams
from autocl.recipes import get_recipe
from autocl.tour import contest, digits, live
from autocl.tour.mistakes import mistakes
from small_learners import GRAY, small

TEN = replace(GRAY, n_classes=10, height=32, width=32, readout="ridge", readout_keys=16)


@pytest.fixture(autouse=True)
def _little_study(monkeypatch):
    monkeypatch.setattr(contest, "EPOCHS", 1)


@pytest.fixture
def learner_file(tmp_path):
    return small(TEN).save_pretrained(tmp_path / "toy.safetensors")


def test_play_fills_the_same_matrix_as_a_passage():
    learner = small(TEN)
    streams = contest.digit_streams("class", shots=2, runs=2)
    entered = contest.contestants({"toy": learner})
    assert [c.name for c in entered] == ["toy", "nearest mean (toy)", "EWC", "Adam"]
    last = {s.contestant.name: s for s in contest.play(entered, streams)}
    taken = run_streams(InContext(learner), streams).matrix
    assert torch.equal(last["toy"].matrix.values.nan_to_num(-1), taken.values.nan_to_num(-1))
    assert last["toy"].now == pytest.approx(float(taken.average().mean()))
    assert last["toy"].learned == pytest.approx(float(taken.learning_accuracy().mean()))


def test_the_scenario_follows_the_outputs():
    two = small(replace(TEN, n_classes=2))
    assert contest.scenario_for({"a": small(TEN)}) == "class"
    assert contest.scenario_for({"a": small(TEN), "b": two}) == "domain"


def test_mistakes_are_the_wrong_answers():
    streams = contest.digit_streams("class", shots=2, runs=1)
    method = InContext(small(TEN))
    matrix = run_streams(method, streams).matrix
    found, asked = mistakes(method, streams)
    sizes = torch.tensor([t.queries.shape[1] for t in streams[0].tasks], dtype=torch.float64)
    right = (matrix.values[0, -1] * sizes).sum()
    assert asked == sizes.sum()
    assert len(found) == round(float(asked - right))
    assert all(m.truth != m.answer for m in found)
    assert [m.sure for m in found] == sorted((m.sure for m in found), reverse=True)
    assert all(m.image.shape == (32, 32) and m.image.dtype == np.uint8 for m in found)


def test_the_command_prints_the_table_and_writes_a_page_that_needs_nothing_else(
    learner_file, tmp_path, capsys
):
    run_command(
        "tour", ["--learner", str(learner_file), "--runs", "1", "--shots", "2", "--out", str(tmp_path / "d")]
    )
    out = capsys.readouterr().out
    assert "after 8/9: toy" in out
    assert "index.html" in out
    page = (tmp_path / "d" / "index.html").read_text(encoding="utf-8")
    for part in ("Accuracy triangles", "fast weights", "got wrong", "image/gif", "image/png", "<svg"):
        assert part in page
    sources = re.findall(r'(?:src|href)="(?!#)([^"]{0,30})', page)
    assert all(source.startswith("data:") for source in sources)  # no file or network beside it


def test_an_empty_zoo_is_said(monkeypatch):
    monkeypatch.setattr(zoo, "names", list)
    with pytest.raises(Exception, match="no learner ships"):
        run_command("tour", [])


def test_missing_learners_are_named(tmp_path, monkeypatch, capsys):
    toy = small(TEN).save_pretrained(tmp_path / "toy.safetensors")
    monkeypatch.setattr(zoo, "names", lambda: ["toy"])
    monkeypatch.setattr(zoo, "file", lambda name: nullcontext(toy))
    found = digits.open_learners((), Console())
    assert list(found) == ["toy"]
    assert "not shipped: split-class, everyday; going with toy" in capsys.readouterr().out


def test_training_live_shows_both_tasks_with_and_without_the_backward_terms(tmp_path, monkeypatch, capsys):
    quick = get_recipe("quick")
    tiny = replace(
        quick, learner=replace(GRAY, height=32, width=32), steps=1, batch_size=2,
        sources=(replace(quick.sources[0], classes=20),), validation=replace(quick.validation, batches=1),
        streams=replace(quick.streams, queries=5),
    )  # fmt: skip
    seen = []
    monkeypatch.setattr(live, "get_recipe", lambda name: tiny)
    monkeypatch.setattr(live, "CLASSES", 20)
    monkeypatch.setattr(live, "BATCHES", 1)
    monkeypatch.setattr(live, "train", lambda r, folder: seen.append(r.objective.acl) or train(r, folder))
    ((head, text),) = live.show(Console(), tmp_path)
    assert seen == [True, False]
    assert "drawn glyphs" in head
    assert len(re.findall(r"<td>[\d.]+</td>", text)) == 6
    assert "task 1 at the end" in capsys.readouterr().out
    live.show(Console(), tmp_path)  # again: beside the first, not over it
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "quick-1",
        "quick-2",
        "quick-noacl-1",
        "quick-noacl-2",
    ]


def train(recipe, folder):
    from autocl.training.trainer import train as really

    return really(recipe, folder)
