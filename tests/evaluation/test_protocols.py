"""Every protocol, end to end, with methods whose answers are known: labels, orders and cells are right."""

from dataclasses import replace
from pathlib import Path

import pytest
from known_methods import AlwaysZero, Known, OnlyLast, coded_set, known_subject, small_learner

from autocl.baselines.base import Method
from autocl.errors import DataError, InputError
from autocl.evaluation.bench import run
from autocl.evaluation.measure import measure, open_sets
from autocl.evaluation.outcome import Outcome
from autocl.evaluation.paper import TABLES
from autocl.evaluation.protocol import Options
from autocl.evaluation.protocols import PROTOCOLS
from autocl.evaluation.subject import SetRef, Subject, Training, learner_subject

QUICK = Options(quick=True)
ALL = list(PROTOCOLS)


def cells(name: str, method: Method, options: Options = QUICK) -> dict[str, tuple[float, ...]]:
    protocol, subject = PROTOCOLS[name], known_subject(method, vectors=name == "vit")
    found: dict[str, tuple[float, ...]] = {}
    for setting in protocol.settings:
        outcome = measure(protocol, setting, subject, options, open_sets(setting, subject))
        assert not outcome.refused
        found |= outcome.cells
    return found


@pytest.mark.parametrize("name", ALL)
def test_a_method_that_forgets_nothing_has_100_everywhere(name: str) -> None:
    assert all(value == (100.0, 100.0) for value in cells(name, Known()).values())


@pytest.mark.parametrize("name", ALL)
def test_cells_are_those_of_the_papers_table(name: str) -> None:
    computed = {cell for setting in PROTOCOLS[name].settings for cell in setting.cells}
    for row in TABLES[name].values():
        assert set(row) <= computed


def expected_of_last(cell: str, name: str) -> float:
    """What a method that is right on its last task only must have in a cell."""
    if ": " in cell and name != "vit":
        order, asked = cell.split(": ")
        letters = order.split("→")
        return 100 / len(letters) if asked == "average" else 100.0 * (asked == letters[-1])
    if name == "vit":
        return 100.0 if ": " in cell else 20.0
    tasks = next((int(word.split("-task")[0]) for word in cell.split() if "-task" in word), 5)
    return 100 / tasks


@pytest.mark.parametrize("name", ALL)
def test_right_on_the_last_task_only(name: str) -> None:
    for cell, values in cells(name, OnlyLast()).items():
        assert values == pytest.approx((expected_of_last(cell, name),) * 2), cell


def test_always_zero_is_at_chance_of_the_labels_in_use() -> None:
    found = cells("split-mnist", AlwaysZero(), Options(runs=1))
    assert found == {"domain 5-task": (50.0,), "class 2-task": (25.0,), "class 5-task": (10.0,)}
    assert cells("diverse", AlwaysZero(), Options(runs=1))["A→B→C→D: D"] == (20.0,)
    assert cells("two-task", AlwaysZero())["A→B: B"] == pytest.approx((20.0, 20.0))


def test_the_papers_demos_are_blocks_of_the_file_in_turn() -> None:
    protocol, subject = PROTOCOLS["split-mnist"], known_subject(Known())
    setting = protocol.settings[0]
    sets = open_sets(setting, subject)
    (stream,) = setting.streams(sets, 1, Options(demos="paper"))
    rows = stream.tasks[0].demo_index
    assert sets["mnist/train"].images[rows[:4].numpy(), 0, 0, :2].tolist() == [
        [0, 15],
        [1, 15],
        [0, 16],
        [1, 16],
    ]


def test_a_learner_with_five_outputs_gets_n_a_and_the_table_goes_on(tmp_path: Path) -> None:
    subject = learner_subject(small_learner(5), "five", load_set=lambda ref: coded_set(ref.name, ref.split))
    outcomes = {o.setting: o for o in run(PROTOCOLS["split-mnist"], subject, QUICK, tmp_path)}
    assert outcomes["class 5-task"].refused == "needs 10 outputs, the learner has 5"
    assert outcomes["class 5-task"].cells == {"class 5-task": ()}
    assert len(outcomes["domain 5-task"].cells["domain 5-task"]) == 2
    assert outcomes["domain 5-task"].cost["examples"] == 150


def test_other_image_sizes_and_absent_data_are_said(tmp_path: Path) -> None:
    wide = learner_subject(small_learner(10), "wide", load_set=lambda ref: coded_set(ref.name, ref.split))
    other = Subject(
        name="o", method=wide.method, fingerprint="f", load=wide.load, outputs=10, image_shape=(1, 16, 16)
    )
    refused = run(PROTOCOLS["split-mnist"], other, QUICK, tmp_path)[0].refused
    assert refused == "mnist has images of 1×8×8, the learner takes 1×16×16"

    def absent(ref: SetRef) -> None:
        raise DataError("not found; get it")

    nowhere = Subject(name="n", method=Known(), fingerprint="f", load=absent)
    outcomes = run(PROTOCOLS["two-task-ood"], nowhere, QUICK, tmp_path)
    absent_sets = [o.refused.split(" is not on this machine: not found; ")[0] for o in outcomes]
    assert absent_sets == ["mnist/train", "cifar10/train"]
    vit = run(PROTOCOLS["vit"], wide, QUICK, tmp_path)
    assert all("feature vectors" in o.refused for o in vit)


def test_data_too_small_for_the_streams_is_said_in_the_table() -> None:
    protocol, subject = PROTOCOLS["split-mnist"], known_subject(Known())
    setting = protocol.settings[0]
    outcome = measure(protocol, setting, subject, Options(demos="paper", runs=3), open_sets(setting, subject))
    assert "45: lower shots or run" in outcome.refused


def test_the_same_seed_gives_the_same_table_and_other_runs_other_demos() -> None:
    load = lambda ref: coded_set(ref.name, ref.split)  # noqa: E731
    protocol = PROTOCOLS["split-mnist"]
    setting = protocol.settings[2]

    def once() -> Outcome:
        subject = learner_subject(small_learner(10), "ten", load_set=load)
        return measure(protocol, setting, subject, QUICK, open_sets(setting, subject))

    first, second = once(), once()
    assert first.cells == second.cells
    assert first.matrix is not None
    assert first.matrix.to_lists()[0] != first.matrix.to_lists()[1]


@pytest.mark.parametrize(
    ("training", "outputs", "rows"),
    [
        (Training(recipe="paper_two_task"), 5, ("Omniglot + mini-ImageNet, ACL", "ACL, out of the box")),
        (
            Training(recipe="paper_two_task_fc100", sets=("fc100", "mini_imagenet"), acl=False),
            5,
            ("FC100 + mini-ImageNet, no ACL", ""),
        ),
        (Training(recipe="quick", sets=("glyphs",)), 10, ("", "")),
        (
            Training(recipe="fast_split_class", sets=("omniglot",)),
            10,
            ("", "ACL, meta-finetuned with 5 tasks"),
        ),
        (Training(recipe="ewc", diet="full"), None, ("", "EWC")),
        (Training(), 5, ("Omniglot + mini-ImageNet, ACL", "ACL, out of the box")),
    ],
)
def test_beside_which_row_of_the_paper_a_subject_stands(
    training: Training, outputs: int | None, rows: tuple[str, str]
) -> None:
    subject = replace(known_subject(Known()), training=training, outputs=outputs)
    assert (PROTOCOLS["two-task"].row(subject), PROTOCOLS["split-mnist"].row(subject)) == rows
    for name, protocol in PROTOCOLS.items():
        assert protocol.row(subject) in ("", *TABLES[name])


def test_impossible_options_are_refused_by_name() -> None:
    with pytest.raises(InputError, match="--runs"):
        Options(runs=0)
