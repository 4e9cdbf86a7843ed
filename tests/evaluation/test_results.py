"""Results as lines: stored, reused only when nothing changed, compared with the paper as documented."""

import json
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from known_methods import Known, OnlyLast, known_entry

from autocl.errors import FileError, InputError
from autocl.evaluation.bench import run
from autocl.evaluation.protocol import Options, Provenance, Published
from autocl.evaluation.protocols import PROTOCOLS
from autocl.evaluation.results import (
    Result,
    Summary,
    compare,
    put_lines,
    read_lines,
    read_results,
    save_result,
    summarise,
)
from autocl.evaluation.table import coverage, lines, markdown, rich_table, uncovered

SPLIT = PROTOCOLS["split-mnist"]
QUICK = Options(quick=True)


class Diary(list[str]):
    def measured(self) -> int:
        return sum("measuring" in line for line in self)


def edit(path: Path, number: int, **changes: object) -> None:
    """Change fields of one line of a file of results."""
    found = path.read_text().splitlines()
    found[number] = json.dumps({**json.loads(found[number]), **changes})
    path.write_text("\n".join(found) + "\n")


def test_a_result_survives_the_file(tmp_path: Path) -> None:
    (result, *_) = run(SPLIT, known_entry(OnlyLast()), QUICK, tmp_path)
    (stored,) = [r for r in read_results(tmp_path, "split-mnist") if r.setting == result.setting]
    assert stored.to_dict() == result.to_dict()
    assert stored.seconds == pytest.approx(result.seconds, abs=0.006)
    assert stored.identity["data"].keys() == {"mnist/train", "mnist/test"}
    assert stored.metrics["average accuracy"] == (20.0, 0.0)
    assert stored.metrics["forgetting"] == (100.0, 0.0)


def test_files_are_compact_sorted_and_the_same_whatever_the_order(tmp_path: Path) -> None:
    for folder, names in (("a", ("x", "y")), ("b", ("y", "x"))):
        for name in names:
            run(SPLIT, known_entry(Known(), name=name), QUICK, tmp_path / folder)
    one, other = (tmp_path / f / "split-mnist.jsonl" for f in ("a", "b"))
    assert one.read_bytes() == other.read_bytes()
    keys = [(v["entry"], v["setting"]) for v in read_lines(one, dict[str, Any])]
    assert keys == sorted(keys)
    assert len(keys) == 6
    assert ", " not in one.read_text().splitlines()[0].replace("known, ", "")
    assert "seconds" not in one.read_text()


def test_lines_written_at_once_are_all_there(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: put_lines(path, [{"key": f"{i:02}", "value": "é"}], key=("key",)), range(40)))
    assert [v["key"] for v in read_lines(path, dict[str, str])] == [f"{i:02}" for i in range(40)]


def test_a_killed_bench_goes_on_where_it_stopped(tmp_path: Path) -> None:
    diary = Diary()
    run(SPLIT, known_entry(Known()), QUICK, tmp_path, say=diary.append)
    assert diary.measured() == 3
    path = tmp_path / "split-mnist.jsonl"
    path.write_text("".join(x for x in path.read_text().splitlines(True) if "class 2-task" not in x))
    diary.clear()
    run(SPLIT, known_entry(Known()), QUICK, tmp_path, say=diary.append)
    assert diary == ["split-mnist, class 2-task: measuring known"]


def test_why_a_method_differs_is_noted_without_measuring_again(tmp_path: Path) -> None:
    class Explained(Known):
        def deviation_note(self) -> str:
            return "it is tested"

    run(SPLIT, known_entry(Known()), QUICK, tmp_path)
    diary = Diary()
    results = run(SPLIT, known_entry(Explained()), QUICK, tmp_path, say=diary.append)
    assert not diary
    assert {result.notes[-1] for result in results} == {"known: it is tested"}
    assert "- known: it is tested" in markdown(lines(SPLIT, results), title="")


def test_what_a_learner_was_meta_trained_on_is_said(tmp_path: Path) -> None:
    sets = ("omniglot", "mini_imagenet", "fc100")
    three = replace(known_entry(Known()), trained=Provenance(recipe="three-task", sets=sets))
    (first, *_) = run(SPLIT, three, QUICK, tmp_path)
    assert "known: meta-trained on omniglot, mini_imagenet, fc100" in first.notes


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"fingerprint": "other"}, "another fingerprint"),
        ({"options": Options(quick=True, runs=1)}, "another runs"),
        ({"options": Options(quick=True, demos="paper")}, "another demos"),
    ],
)
def test_stale_results_are_measured_again_and_said(tmp_path: Path, change: dict, said: str) -> None:  # type: ignore[type-arg]
    run(SPLIT, known_entry(Known()), QUICK, tmp_path)
    diary = Diary()
    entry = known_entry(OnlyLast(), fingerprint=change.get("fingerprint", "f"))
    results = run(SPLIT, entry, change.get("options", QUICK), tmp_path, say=diary.append)
    assert sum(said in line for line in diary) == 3
    assert results[0].cells["domain 5-task"][0] == 20.0
    assert {r.cells[r.setting][0] for r in read_results(tmp_path, "split-mnist")} == {20.0, 50.0}


def test_other_data_is_never_reused_and_a_damaged_line_is_named(tmp_path: Path) -> None:
    run(SPLIT, known_entry(Known()), QUICK, tmp_path)
    path = tmp_path / "split-mnist.jsonl"
    identity = read_lines(path, dict[str, Any])[1]["identity"]
    edit(path, 1, identity={**identity, "data": {**identity["data"], "mnist/test": "0" * 16}})
    diary = Diary()
    run(SPLIT, known_entry(Known()), QUICK, tmp_path, say=diary.append)
    assert sum("another data" in line for line in diary) == 1
    assert diary.measured() == 1
    edit(path, 2, cells=None)
    with pytest.raises(FileError, match=r"split-mnist.jsonl, line 3: cells must be an object"):
        read_results(tmp_path, "split-mnist")
    path.write_text("{\n")
    with pytest.raises(FileError, match="line 1: damaged"):
        read_results(tmp_path, "split-mnist")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"matrix": [[1.0]]}, r"the matrix is not \[5, 5\]"),
        ({"matrix": [[2.0] * 5] * 5}, "no accuracy between 0 and 1"),
        ({"cells": {"domain 5-task": [1e308]}}, "no accuracy in percent"),
        ({"cost": {"examples": 1}}, "the cost must name examples, gradient_steps, state_bytes"),
        ({"trained": {"tasks": "5"}}, "trained.tasks must be an integer"),
    ],
)
def test_a_result_that_makes_no_sense_is_refused(tmp_path: Path, change: dict, message: str) -> None:
    run(SPLIT, known_entry(OnlyLast()), QUICK, tmp_path)
    path = tmp_path / "split-mnist.jsonl"
    place = next(i for i, v in enumerate(read_lines(path, dict[str, Any])) if len(v["tasks"]) == 5)
    edit(path, place, **change)
    with pytest.raises(FileError, match=message):
        read_results(tmp_path, "split-mnist")


def test_summary_by_hand() -> None:
    s = summarise([10.0, 20.0])
    assert (s.mean, s.std, s.runs) == (15.0, 5.0, 2)
    assert s.interval == pytest.approx(1.959964 * 50**0.5 / 2**0.5)
    assert math.isnan(summarise([3.0]).interval)


@pytest.mark.parametrize(
    ("mean", "status"),
    [(84.5, "reproduced"), (85.5, "reproduced"), (83.4, "reproduced"), (90.0, "better"), (70.0, "worse")],
)
def test_status_by_the_interval_of_the_difference(mean: float, status: str) -> None:
    # 1.96 · sqrt(1.6²/10 + 1.0²/10) = 1.17
    ours = Summary(mean=mean, std=1.0, interval=0.6, runs=10)
    assert compare(ours, Published(84.5, 1.6)) == status


def test_negligible_differences_are_none_however_sure() -> None:
    sure = Summary(mean=50.4, std=0.0, interval=0.0, runs=10)
    assert compare(sure, Published(50.0)) == "reproduced"
    assert compare(sure, Published(49.8)) == "better"


def test_where_forgetting_is_shown_more_is_not_better(tmp_path: Path) -> None:
    ood = PROTOCOLS["two-task-ood"]
    (result, *_) = run(ood, known_entry(Known()), QUICK, tmp_path)
    measured = replace(result, incomparable="", cells={"A→B: A": (90.0, 90.0)})
    statuses = {}
    for acl in ("ACL", "no ACL"):
        made = lines(ood, [measured], row=f"Omniglot + mini-ImageNet, {acl}")
        (statuses[acl],) = [line.status for line in made if line.cell == "A→B: A"]
    assert statuses == {"ACL": "better", "no ACL": "higher"}


def test_tables_show_ours_the_papers_the_difference_and_the_status(tmp_path: Path) -> None:
    results = run(SPLIT, known_entry(Known(), name="best"), Options(runs=2), tmp_path)
    first = [replace(r, notes=("best: made of x", "y is small")) for r in results]
    others = [replace(r, entry="other", notes=("other: made of x", "y is small")) for r in results]
    both = markdown(lines(SPLIT, [*first, *others], row="GeMCL"), title=SPLIT.title)
    assert "- Beside the paper's row “GeMCL”: best, other." in both
    assert both.count("- best, other: made of x\n") == 1
    assert both.count("- y is small\n") == 1
    made = lines(SPLIT, results, row="GeMCL")
    text = markdown(made, title=SPLIT.title)
    # The coded test set is smaller than MNIST's, and the table must say so.
    assert "| best | domain 5-task | 100.0 ± 0.0 | 63.8 ± 3.8 | +36.2 | not comparable [1] |" in text
    assert "- [1] not comparable because only 3,200" in text
    assert "- Beside the paper's row “GeMCL”: best." in text
    assert rich_table(made, title="x").row_count == 4


def test_cells_that_were_not_stored_say_why(tmp_path: Path) -> None:
    results = run(SPLIT, replace(known_entry(Known()), outputs=4), QUICK, tmp_path)
    stored = read_results(tmp_path, "split-mnist")
    assert {r.setting for r in stored} == {"domain 5-task", "class 2-task"}, "refusals are not stored"
    for made in (lines(SPLIT, results), lines(SPLIT, stored)):
        reasons = {line.cell: line.reason for line in made if line.status == "N.A."}
        assert reasons == {"class 5-task": "needs 10 outputs, the learner has 4"}
    (condensed,) = lines(SPLIT, [replace(r, cells={}, unsupported="so") for r in results])
    assert (condensed.cell, condensed.reason) == ("all 3", "so")


def test_tables_begin_with_what_learns_in_context(tmp_path: Path) -> None:
    for name, train_on, steps in (("a", "demos", 9), ("b", "full", 9), ("c", "demos", 0)):
        trained = Provenance(recipe="known", train_on=train_on)
        entry = replace(known_entry(Known(), name=name), trained=trained)
        for result in run(SPLIT, entry, QUICK, tmp_path):
            save_result(tmp_path, replace(result, cost={**result.cost, "gradient_steps": steps}))
    assert list(dict.fromkeys(r.entry for r in read_results(tmp_path, "split-mnist"))) == ["c", "b", "a"]


def test_a_row_that_the_paper_does_not_have_is_refused() -> None:
    with pytest.raises(InputError, match=r"no row 'ECW'.*EWC"):
        lines(SPLIT, [], row="ECW")


def test_published_numbers_are_those_of_the_paper() -> None:
    def printed(table: str, row: str, cell: str) -> Published | None:
        rows = PROTOCOLS[table].published
        return next((r.cells[cell] for r in rows if r.name == row and cell in r.cells), None)

    finetuned = "ACL, meta-finetuned with 5 tasks"
    assert printed("split-mnist", finetuned, "class 5-task") == Published(84.3, 1.2, 10)
    assert printed("split-mnist", "ACL, out of the box", "class 5-task") is None, "the paper's N.A."
    assert printed("two-task-fc100", "FC100 + mini-ImageNet, ACL", "A→B: A") == Published(46.2, 1.3, 5)
    assert printed("split-omniglot", finetuned, "domain 5-task") == Published(92.3, 0.4, 10)
    count = {name: sum(len(r.cells) for r in p.published) for name, p in PROTOCOLS.items()}
    assert count == {
        "two-task": 12, "two-task-fc100": 12, "two-task-ood": 24, "split-mnist": 37, "shots": 18,
        "meta-validation": 21, "diverse": 51, "split-omniglot": 12, "shapes": 0,
        "backbone": 12, "split-cifar100": 0,
    }  # fmt: skip


def test_the_results_in_the_repository_are_whole() -> None:
    folder = Path(__file__).parents[2] / "results"
    for name, protocol in PROTOCOLS.items():
        for result in read_results(folder, name):
            (setting,) = [s for s in protocol.settings if s.name == result.setting]
            assert set(result.cells) == set(setting.cells)
            assert {len(values) for values in result.cells.values()} == {result.identity["runs"]}
            assert not result.identity["quick"]


RESULTS = Path(__file__).parents[2] / "results"


def of_ewc(folder: Path) -> list[Result]:
    trained = Provenance(recipe="ewc", train_on="full")
    results = run(SPLIT, replace(known_entry(Known()), trained=trained), Options(quick=True), folder)
    return [replace(r, incomparable="") for r in results]


def test_numbers_without_an_entry_say_why(tmp_path: Path) -> None:
    covered = list(coverage(SPLIT, of_ewc(tmp_path)))
    assert len(covered) == sum(len(row.cells) for row in SPLIT.published)
    statuses = {c.cell: c.status for c in covered if c.row.name == "EWC"}
    assert statuses == dict.fromkeys(("domain 5-task", "class 2-task", "class 5-task"), "better")
    (adam,) = {c.status for c in covered if c.row.name == "Adam"}
    assert adam == "not measured: `autocl bench split-mnist` with it measures it"
    missing = uncovered(SPLIT, of_ewc(tmp_path))
    assert f"Adam: {adam}" in missing
    assert not any(text.startswith("EWC") for text in missing)


def test_copies_that_are_not_the_official_ones_are_said(tmp_path: Path) -> None:
    noted = [replace(r, notes=("mnist/test: stored as JPEG", "known: slow")) for r in of_ewc(tmp_path)]
    assert noted[0].stand_ins == ("mnist/test: stored as JPEG",)
    statuses = {c.status for c in coverage(SPLIT, noted) if c.row.name == "EWC"}
    assert statuses == {"better (stand-in images)"}


def test_every_number_of_the_paper_is_accounted_for_in_the_repository() -> None:
    for name, protocol in PROTOCOLS.items():
        covered = list(coverage(protocol, read_results(RESULTS, name)))
        assert {(c.row.name, c.cell) for c in covered} == {
            (row.name, cell) for row in protocol.published for cell in row.cells
        }
        for c in covered:
            assert c.line is not None or c.status.startswith("not measured: "), c
