"""The tour at toy size: the tables are true, and the page is whole."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from rich.console import Console

from autocl.baselines.incontext import InContext
from autocl.cli.main import run_command
from autocl.errors import InputError
from autocl.learner import ReadoutLearner, ReadoutLearnerConfig
from autocl.learner.find import find_learner
from autocl.passage import run_streams
from autocl.readouts import ReadoutConfig
from autocl.tour import contest, pair, photographs
from autocl.tour.contest import mistakes, watch
from autocl.tour.used import use
from small_learners import GRAY, small

TEN = replace(GRAY, n_classes=10, height=32, width=32, readout="ridge", readout_keys=16)
NAMES = ["class means", "LDA", "1-NN", "1-NN on pixels", "replay", "fine-tuning"]


@pytest.fixture(autouse=True)
def _little_study(monkeypatch):
    monkeypatch.setattr(contest, "EPOCHS", 1)
    monkeypatch.setattr(pair, "BATCHES", 1)


@pytest.fixture
def learner_file(tmp_path):
    return small(TEN).save_pretrained(tmp_path / "toy.safetensors")


def test_play_fills_the_same_matrix_as_a_passage():
    learner = small(TEN)
    digits = contest.digits({"toy": learner}, shots=2, runs=2)
    assert [c.name for c in digits.entered] == ["toy", *NAMES]
    last = {s.contestant.name: s for s in contest.play(digits)}
    taken = run_streams(InContext(learner), digits.streams).matrix
    assert torch.equal(last["toy"].matrix.values.nan_to_num(-1), taken.values.nan_to_num(-1))
    assert last["toy"].now == pytest.approx(float(taken.average().mean()))
    kept = {name: s.cost.state_bytes for name, s in last.items()}
    assert kept["1-NN on pixels"] > kept["1-NN"] > kept["class means"], "pixels are more than features"
    rivals = [s for s in last.values() if s.contestant.learner is None]
    for keeping in (True, False):
        best = contest.best_rival(list(last.values()), keeping=keeping)
        assert best.now == max(s.now for s in rivals if s.contestant.method.uses_replay == keeping)


def test_the_question_follows_the_outputs():
    two = small(replace(TEN, n_classes=2))
    assert contest.digits({"a": small(TEN)}, shots=1, runs=1).streams[0].scenario == "class"
    assert contest.digits({"a": small(TEN), "b": two}, shots=1, runs=1).streams[0].scenario == "domain"
    assert contest.drawings({"a": small(TEN)}, shots=1, runs=1) is None
    some = contest.drawings({"a": small(replace(TEN, n_classes=20))}, shots=9, runs=1)
    growing = ReadoutLearner(ReadoutLearnerConfig(channels=1, readout=ReadoutConfig(kind="means"))).eval()
    many = contest.drawings({"a": growing}, shots=9, runs=1)
    assert [c.streams[0].n_outputs for c in (some, many)] == [20, 100]
    assert some.streams[0].tasks[0].demos.shape[1] == 4 * contest.DRAWN_SHOTS
    with pytest.raises(InputError, match="runs must be at least 1"):
        contest.digits({"a": two}, shots=1, runs=0)


def test_the_table_shows_every_contestant_after_every_task(capsys):
    digits = contest.digits({"toy": small(TEN)}, shots=2, runs=1)
    last = watch(contest.play(digits), digits, Console(width=120))
    printed = capsys.readouterr().out
    assert [s.contestant.name for s in last] == ["toy", *NAMES]
    for standing in last:
        row = next(line for line in printed.splitlines() if line.startswith(f" {standing.contestant.name}"))
        assert re.findall(r"\d+\.\d", row) == [f"{100 * v:.1f}" for v in standing.seen]
        assert ("*" in row) == standing.contestant.method.uses_replay


def test_mistakes_are_the_wrong_answers():
    runs = contest.digit_streams("class", shots=2, runs=1)
    method = InContext(small(TEN))
    matrix = run_streams(method, runs).matrix
    found, asked = mistakes(method, runs[0])
    sizes = torch.tensor([t.queries.shape[1] for t in runs[0].tasks], dtype=torch.float64)
    right = (matrix.values[0, -1] * sizes).sum()
    assert asked == sizes.sum()
    assert len(found) == round(float(asked - right))
    assert all(m.truth != m.answer for m in found)
    assert [m.sure for m in found] == sorted((m.sure for m in found), reverse=True)
    assert all(m.image.shape == (32, 32) and m.image.dtype == np.uint8 for m in found)


def test_the_command_prints_tables_and_writes_a_page_that_needs_nothing_else(learner_file, tmp_path, capsys):
    run_command(
        "tour", ["--learner", str(learner_file), "--runs", "1", "--shots", "2", "--out", str(tmp_path / "d")]
    )
    out = capsys.readouterr().out
    for part in ("two at a time", "fine-tuning", "one at a time", "task 1, after task 2", "index.html"):
        assert part in out
    page = (tmp_path / "d" / "index.html").read_text(encoding="utf-8")
    for part in ("accuracy triangles", "got wrong", "image/gif", "image/png", "<svg", "scheme: dark"):
        assert part in page
    assert 'name="viewport"' in page
    sources = re.findall(r'(?:src|href)="(?!#)([^"]{0,30})', page)
    assert all(source.startswith("data:") for source in sources)  # no file or network beside it


def test_used_as_a_program_would(learner_file, monkeypatch):
    monkeypatch.setattr("autocl.tour.used.DEMOS", 12)
    used = use(str(learner_file))
    assert used.demos == 12
    assert used.asked == 1797 - 12
    assert 0 <= used.accuracy <= 1
    assert used.milliseconds > 0
    assert used.kilobytes > 1


def test_both_halves_of_the_pair_are_asked_the_same(monkeypatch):
    first, second = pair.PAIR.values()
    learner = find_learner(first)
    monkeypatch.setattr(pair, "find_learner", lambda name: learner)
    one, other = pair.measure_pair()
    assert one.shares == other.shares
    assert (one.name, other.name) == (first, second)
    m = pair.measure(learner).values
    assert one.shares == pytest.approx((float(m[0, 0]), float(m[1, 0]), float(m[1, 1])))


def test_photographs_are_learned_beside_simple_rivals(capsys):
    if not photographs.available():
        # `make demo` installs the network; `make test` does without its 25 MB.
        pytest.skip("photographs need autocl[tour]")
    X, y, Q, truth = photographs.cuttings()
    assert len(X) == len(y) == photographs.SHOTS * len(photographs.PARTS)
    assert len(Q) == len(truth) == photographs.ASKED * len(photographs.PARTS)
    assert [set(y[i : i + 6]) for i in (0, 6, 12)] == [set(pair.split("/")) for pair in photographs.PAIRS]
    found = photographs.measure()
    photographs.show(found, Console(width=120))
    printed = capsys.readouterr().out
    for name, shares in found.seen.items():
        assert len(shares) == len(photographs.PAIRS)
        row = next(line for line in printed.splitlines() if line.startswith(f" {name} "))
        assert re.findall(r"\d+\.\d", row) == [f"{100 * share:.1f}" for share in shares]
    assert found.seen["photos"][-1] > 0.9  # six quite different things
