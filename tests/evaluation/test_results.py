"""Results as data: stored, reused only when nothing changed, compared with the paper as documented."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from known_methods import Known, OnlyLast, known_subject

from autocl.errors import InputError
from autocl.evaluation.bench import run, table_of, write_tables
from autocl.evaluation.outcome import Outcome, read_all
from autocl.evaluation.paper import SPLIT_MNIST, TABLES, Published
from autocl.evaluation.protocol import Options
from autocl.evaluation.protocols import PROTOCOLS
from autocl.evaluation.statistics import Summary, compare, summarise
from autocl.evaluation.subject import Subject, Training
from autocl.evaluation.table import markdown, rich_table

SPLIT = PROTOCOLS["split-mnist"]
QUICK = Options(quick=True)


class Diary(list[str]):
    def measured(self) -> int:
        return sum("measuring" in line for line in self)


def test_an_outcome_survives_the_file(tmp_path: Path) -> None:
    (outcome, *_) = run(SPLIT, known_subject(OnlyLast()), QUICK, tmp_path)
    (stored,) = [o for o in read_all(tmp_path, "split-mnist") if o.setting == outcome.setting]
    assert stored.identity == outcome.identity
    assert stored.cells == outcome.cells
    assert stored.matrix is not None
    assert outcome.matrix is not None
    assert stored.matrix.to_lists() == outcome.matrix.to_lists()
    values = json.loads((tmp_path / "split-mnist/known/domain-5-task.json").read_text())
    assert values["identity"]["data"].keys() == {"mnist/train", "mnist/test"}
    assert values["versions"]["torch"]


def test_a_killed_bench_goes_on_where_it_stopped(tmp_path: Path) -> None:
    diary = Diary()
    run(SPLIT, known_subject(Known()), QUICK, tmp_path, say=diary.append)
    assert diary.measured() == 3
    (tmp_path / "split-mnist/known/class-2-task.json").unlink()
    diary.clear()
    run(SPLIT, known_subject(Known()), QUICK, tmp_path, say=diary.append)
    assert diary == ["split-mnist, class 2-task: measuring known"]


def test_why_a_method_differs_is_noted_without_measuring_again(tmp_path: Path) -> None:
    class Explained(Known):
        def differs(self) -> str:
            return "it is tested"

    run(SPLIT, known_subject(Known()), QUICK, tmp_path)
    diary = Diary()
    outcomes = run(SPLIT, known_subject(Explained()), QUICK, tmp_path, say=diary.append)
    assert not diary
    assert {outcome.notes[-1] for outcome in outcomes} == {"known: it is tested"}
    assert "- known: it is tested" in markdown(table_of(SPLIT, outcomes), title="")


def test_what_a_learner_was_meta_trained_on_is_said(tmp_path: Path) -> None:
    sets = ("omniglot", "mini_imagenet", "tiny_imagenet")
    three = replace(known_subject(Known()), training=Training(recipe="fast_three_task", sets=sets))
    (first, *_) = run(SPLIT, three, QUICK, tmp_path)
    assert "known: meta-trained on omniglot, mini_imagenet, tiny_imagenet" in first.notes


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"fingerprint": "other"}, "another fingerprint"),
        ({"options": Options(quick=True, runs=1)}, "another runs"),
        ({"options": Options(quick=True, demos="paper")}, "another demos"),
    ],
)
def test_stale_results_are_measured_again_and_said(tmp_path: Path, change: dict, said: str) -> None:  # type: ignore[type-arg]
    run(SPLIT, known_subject(Known()), QUICK, tmp_path)
    diary = Diary()
    subject = known_subject(OnlyLast(), fingerprint=change.get("fingerprint", "f"))
    outcomes = run(SPLIT, subject, change.get("options", QUICK), tmp_path, say=diary.append)
    assert sum(said in line for line in diary) == 3
    assert outcomes[0].cells["domain 5-task"][0] == 20.0
    assert {o.cells[o.setting][0] for o in read_all(tmp_path, "split-mnist")} == {20.0, 50.0}


def test_other_data_or_a_damaged_file_is_never_reused(tmp_path: Path) -> None:
    run(SPLIT, known_subject(Known()), QUICK, tmp_path)
    path = tmp_path / "split-mnist/known/class-5-task.json"
    values = json.loads(path.read_text())
    values["identity"]["data"]["mnist/test"] = "0" * 64
    path.write_text(json.dumps(values))
    (tmp_path / "split-mnist/known/class-2-task.json").write_text("{")
    diary = Diary()
    run(SPLIT, known_subject(Known()), QUICK, tmp_path, say=diary.append)
    assert any("another data" in line for line in diary)
    assert any("class-2-task.json" in line and "not a result" in line for line in diary)


def test_summary_by_hand() -> None:
    s = summarise([10.0, 20.0])
    assert (s.mean, s.std, s.runs) == (15.0, 5.0, 2)
    assert s.interval == pytest.approx(1.959964 * 50**0.5 / 2**0.5)
    assert summarise([3.0]).interval != summarise([3.0]).interval


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
    row = "Omniglot + mini-ImageNet, no ACL"
    (outcome, *_) = run(ood, known_subject(Known()), QUICK, tmp_path, row=row)
    (first, *_) = table_of(
        ood, [replace(outcome, diet="demos", incomparable="", cells={"A→B: A": [90.0, 90.0]})]
    )
    assert first.status == "higher"


def test_tables_show_ours_the_papers_the_difference_and_the_status(tmp_path: Path) -> None:
    outcomes = run(SPLIT, known_subject(Known(), name="best"), Options(runs=2), tmp_path, row="GeMCL")
    first = [replace(o, notes=("best: made of x", "y is small")) for o in outcomes]
    others = [
        replace(o, identity={**o.identity, "subject": "other"}, notes=("other: made of x", "y is small"))
        for o in outcomes
    ]
    both = markdown(table_of(SPLIT, [*first, *others]), title=SPLIT.title)
    assert "- Beside the paper's row “GeMCL”: best, other." in both
    assert both.count("- best, other: made of x\n") == 1
    assert both.count("- y is small\n") == 1
    text = markdown(table_of(SPLIT, outcomes), title=SPLIT.title)
    # The coded test set is smaller than MNIST's, and the table must say so.
    assert "| best | domain 5-task | 100.0 ± 0.0 | 63.8 ± 3.8 | +36.2 | not comparable [1] |" in text
    assert "- [1] not comparable because only 1,920" in text
    assert "- Beside the paper's row “GeMCL”: best." in text
    assert rich_table(table_of(SPLIT, outcomes), title="x").row_count == 4
    tables = write_tables(tmp_path)
    assert list(tables) == ["split-mnist"]
    assert (tmp_path / "tables.md").read_text().count("| best |") == 3


def test_what_saw_other_data_than_the_papers_row_is_not_held_against_it(tmp_path: Path) -> None:
    known = known_subject(Known())
    full = replace(known, training=Training(recipe="known", diet="full"))

    def reason(subject: Subject, row: str) -> str:
        return table_of(SPLIT, run(SPLIT, subject, Options(runs=1), tmp_path, row=row))[0].reason

    assert reason(known, "EWC") == "it saw the demos of each task, the paper's all training images"
    assert reason(full, "GeMCL") == "it saw all training images of each task, the paper's the demos"
    assert reason(full, "EWC") == reason(known, "GeMCL")
    assert "1,920 of mnist's 10,000 test images" in reason(full, "EWC")


def test_tables_begin_with_what_learns_in_context(tmp_path: Path) -> None:
    for name, diet, steps in (("a", "demos", 9), ("b", "full", 9), ("c", "demos", 0)):
        subject = replace(known_subject(Known(), name=name), training=Training(recipe="known", diet=diet))
        for outcome in run(SPLIT, subject, QUICK, tmp_path):
            replace(outcome, cost={**outcome.cost, "gradient_steps": steps}).save(tmp_path)
    assert list(dict.fromkeys(o.subject for o in read_all(tmp_path, "split-mnist"))) == ["c", "b", "a"]


def test_a_row_that_the_paper_does_not_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no row 'ECW'.*EWC"):
        run(SPLIT, known_subject(Known()), QUICK, tmp_path, row="ECW")
    assert not any(tmp_path.iterdir())


def test_published_numbers_are_those_of_the_paper() -> None:
    assert SPLIT_MNIST["ACL, meta-finetuned with 5 tasks"]["class 5-task"] == Published(84.3, 1.2, 10)
    assert "class 5-task" not in SPLIT_MNIST["ACL, out of the box"], "the paper's N.A."
    assert TABLES["two-task"]["FC100 + mini-ImageNet, ACL"]["A→B: A"] == Published(46.2, 1.3, 5)
    assert sum(len(row) for table in TABLES.values() for row in table.values()) == 194


def test_outcomes_of_another_format_are_named(tmp_path: Path) -> None:
    bad = tmp_path / "x.json"
    bad.write_text('{"format": 99}')
    with pytest.raises(Exception, match="format 99"):
        Outcome.read(bad)
