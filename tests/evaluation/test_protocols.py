"""Every protocol, end to end, with methods whose answers are known: labels, orders and cells are right."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from known_methods import AlwaysZero, Known, OnlyLast, coded_set, known_entry, small_learner

from autocl.baselines.base import Method
from autocl.errors import DataError, InputError
from autocl.evaluation.bench import run
from autocl.evaluation.entry import Entry, architecture_of, learner_entry, open_learner
from autocl.evaluation.protocol import Options, Provenance, SetRef
from autocl.evaluation.protocols import PROTOCOLS
from autocl.evaluation.results import Result
from autocl.evaluation.table import lines
from autocl.recipes import get_recipe
from autocl.training.recipe import provenance
from autocl.typed_json import parse_json

QUICK = Options(quick=True)
ALL = list(PROTOCOLS)


def load_coded(ref: SetRef) -> object:
    return coded_set(ref.name, ref.split)


def cells(name: str, method: Method, folder: Path, options: Options = QUICK) -> dict[str, tuple[float, ...]]:
    results = run(PROTOCOLS[name], known_entry(method), options, folder)
    assert not any(r.unsupported for r in results)
    return {cell: values for r in results for cell, values in r.cells.items()}


@pytest.mark.parametrize("name", ALL)
def test_a_method_that_forgets_nothing_has_100_everywhere(name: str, tmp_path: Path) -> None:
    assert all(value == (100.0, 100.0) for value in cells(name, Known(), tmp_path).values())


@pytest.mark.parametrize("name", ALL)
def test_cells_are_those_of_the_papers_table(name: str) -> None:
    protocol = PROTOCOLS[name]
    computed = {cell for setting in protocol.settings for cell in setting.cells} | set(protocol.averages)
    assert set(protocol.cells) == computed
    for row in protocol.published:
        assert set(row.cells) <= computed
    for parts in protocol.averages.values():
        assert set(parts) <= computed


def expected_of_last(cell: str) -> float:
    """What a method that is right on its last task only must have in a cell."""
    if ": " in cell:
        order, asked = cell.split(": ")
        letters = order.split("→")
        return 100 / len(letters) if asked == "average" else 100.0 * (asked == letters[-1])
    if cell in (s.name for s in PROTOCOLS["backbone"].settings if s.n_outputs == 2):
        return 100.0
    tasks = next((int(word.split("-task")[0]) for word in cell.split() if "-task" in word), 5)
    return 100 / tasks


@pytest.mark.parametrize("name", ALL)
def test_right_on_the_last_task_only(name: str, tmp_path: Path) -> None:
    for cell, values in cells(name, OnlyLast(), tmp_path).items():
        assert values == pytest.approx((expected_of_last(cell),) * 2, abs=1e-4), cell


def test_the_streams_need_as_many_outputs_as_the_setting_says(tmp_path: Path) -> None:
    for protocol in PROTOCOLS.values():
        for setting in protocol.settings:
            sets = {ref.key: coded_set(ref.name, ref.split) for ref in setting.sets}
            assert setting.streams(sets, 0, QUICK).n_outputs == setting.n_outputs, setting.name


def test_always_zero_is_at_chance_of_the_labels_in_use(tmp_path: Path) -> None:
    found = cells("split-mnist", AlwaysZero(), tmp_path, Options(runs=1))
    assert found == {"domain 5-task": (50.0,), "class 2-task": (25.0,), "class 5-task": (10.0,)}
    assert cells("diverse", AlwaysZero(), tmp_path, Options(runs=1))["A→B→C→D: D"] == (20.0,)
    assert cells("two-task", AlwaysZero(), tmp_path)["A→B: B"] == pytest.approx((20.0, 20.0))


def test_the_average_over_single_tasks_is_taken_run_by_run(tmp_path: Path) -> None:
    protocol = PROTOCOLS["diverse"]
    results = run(protocol, known_entry(Known()), QUICK, tmp_path)
    values = {"A: A": (10.0, 20.0), "B: B": (30.0, 40.0), "C: C": (50.0, 60.0), "D: D": (70.0, 80.0)}
    known = [
        replace(r, cells={**r.cells, **{c: v for c, v in values.items() if c in r.cells}}) for r in results
    ]
    (alone,) = [line for line in lines(protocol, known) if line.cell == "alone: average"]
    assert alone.ours is not None
    assert (alone.ours.mean, alone.ours.std, alone.ours.runs) == (45.0, 5.0, 2)
    lacking = [r for r in known if r.setting != "C"]
    (alone,) = [line for line in lines(protocol, lacking) if line.cell == "alone: average"]
    assert (alone.status, alone.reason) == ("N.A.", "not measured")
    printed = {row.name: row.cells["alone: average"].mean for row in protocol.published}
    assert list(printed.values()) == [60.3, 61.2, 70.1]


def test_the_papers_demos_are_blocks_of_the_file_in_turn() -> None:
    setting = PROTOCOLS["split-mnist"].settings[0]
    sets = {ref.key: coded_set(ref.name, ref.split) for ref in setting.sets}
    rows = setting.streams(sets, 1, Options(demos="paper")).tasks[0].demos[0]
    assert sets["mnist/train"].images[rows[:4].numpy(), 0, 0, :2].tolist() == [
        [0, 15],
        [1, 15],
        [0, 16],
        [1, 16],
    ]


def test_rotated_test_characters_are_a_setting_of_their_own() -> None:
    asked = {s.name: s.sets[0].options for s in PROTOCOLS["split-omniglot"].settings}
    assert asked["class 5-task"] == ()
    assert asked["class 5-task, rotated"] == (("rotations", True),)


def test_a_learner_with_five_outputs_gets_n_a_and_the_table_goes_on(tmp_path: Path) -> None:
    entry = replace(learner_entry(small_learner(5), "five"), load=load_coded)
    protocol = PROTOCOLS["split-mnist"]
    results = {r.setting: r for r in run(protocol, entry, QUICK, tmp_path)}
    assert results["class 5-task"].unsupported == "needs 10 outputs, the learner has 5"
    assert results["class 5-task"].cells == {"class 5-task": ()}
    assert len(results["domain 5-task"].cells["domain 5-task"]) == 2
    assert results["domain 5-task"].cost["examples"] == 150


def test_absent_data_is_said(tmp_path: Path) -> None:
    def absent(ref: SetRef) -> None:
        raise DataError("not found; get it")

    nowhere = Entry(name="n", method=Known(), fingerprint="f", load=absent)
    results = run(PROTOCOLS["two-task-ood"], nowhere, QUICK, tmp_path)
    said = [r.unsupported for r in results]
    assert said == [f"{s}/train is not on this machine: not found; get it" for s in ("mnist", "cifar10")]
    assert not any(tmp_path.iterdir())


def test_data_too_small_for_the_streams_is_said_in_the_table(tmp_path: Path) -> None:
    options = Options(demos="paper", runs=3)
    (first, *_) = run(PROTOCOLS["split-mnist"], known_entry(Known()), options, tmp_path)
    assert "45: lower shots or run" in first.unsupported


def test_the_same_seed_gives_the_same_table_and_other_runs_other_demos(tmp_path: Path) -> None:
    def once(folder: str) -> Result:
        entry = replace(learner_entry(small_learner(10), "ten"), load=load_coded)
        return run(PROTOCOLS["split-mnist"], entry, QUICK, tmp_path / folder)[2]

    first, second = once("a"), once("b")
    assert first.to_dict() == second.to_dict()
    assert (tmp_path / "a/split-mnist.jsonl").read_bytes() == (tmp_path / "b/split-mnist.jsonl").read_bytes()
    one, other = first.cells["class 5-task"]
    assert one != other


TWO = Provenance(
    recipe="fast_two_task", architecture="conv4 + srwm", sets=("omniglot", "mini_imagenet"),
    scenario="domain", tasks=2, ways=5, shots=15,
)  # fmt: skip
FIVE = replace(TWO, recipe="fast_split_class", sets=("omniglot",), scenario="class", tasks=5, ways=2)
BOTH = "Omniglot + mini-ImageNet"


@pytest.mark.parametrize(
    ("trained", "table", "cell", "row"),
    [
        (TWO, "two-task", "A→B: A", f"{BOTH}, ACL"),
        (replace(TWO, acl=False), "two-task", "A→B: A", f"{BOTH}, no ACL"),
        (TWO, "split-mnist", "domain 5-task", "ACL, out of the box"),
        (TWO, "split-mnist", "class 5-task", None),
        (TWO, "meta-validation", "split-cifar10", "ACL, out of the box"),
        (TWO, "two-task-fc100", "A→B: A", None),
        (
            replace(TWO, sets=("fc100", "mini_imagenet")),
            "two-task-fc100",
            "A→B: A",
            "FC100 + mini-ImageNet, ACL",
        ),
        (replace(TWO, sets=("fc100", "mini_imagenet")), "two-task", "A→B: A", None),
        (replace(TWO, sets=("fc100", "mini_imagenet")), "diverse", "A: A", None),
        (replace(TWO, architecture="conv4 + srwm + ridge"), "two-task", "A→B: A", None),
        (replace(TWO, tasks=3, sets=(*TWO.sets, "tiny_imagenet")), "two-task", "A→B: A", None),
        (replace(TWO, tasks=3, sets=(*TWO.sets, "tiny_imagenet")), "diverse", "A: A", None),
        (replace(TWO, tasks=3, sets=(*TWO.sets, "fc100")), "diverse", "A: A", f"{BOTH} + FC100, ACL"),
        (replace(TWO, sets=("glyphs",), shots=5), "shots", "domain 5-task, 5 shots", None),
        (FIVE, "split-mnist", "class 5-task", "ACL, meta-finetuned with 5 tasks"),
        (FIVE, "split-mnist", "domain 5-task", None),
        (
            replace(FIVE, scenario="domain"),
            "split-mnist",
            "domain 5-task",
            "ACL, meta-finetuned with 5 tasks",
        ),
        (replace(FIVE, shots=5), "shots", "class 2-task, 15 shots", "ACL, meta-trained with 5 shots"),
        (replace(FIVE, tasks=10), "split-mnist", "class 5-task", None),
        (
            replace(FIVE, scenario="domain", sets=TWO.sets, validated_on="fashion_mnist"),
            "meta-validation",
            "split-mnist",
            f"{BOTH}, validated on FMNIST",
        ),
        (replace(FIVE, scenario="domain"), "meta-validation", "split-mnist", None),
        (Provenance(recipe="ewc", train_on="full"), "split-mnist", "class 2-task", "EWC"),
        (Provenance(recipe="ewc"), "split-mnist", "class 2-task", None),
        (Provenance(recipe="gemcl"), "split-omniglot", "class 5-task, rotated", "GeMCL"),
        (Provenance(), "two-task", "A→B: A", None),
    ],
)
def test_an_entry_stands_beside_the_row_that_says_what_its_file_says(
    trained: Provenance, table: str, cell: str, row: str | None
) -> None:
    found = PROTOCOLS[table].row(trained, cell)
    assert (found.name if found else None) == row


@pytest.mark.parametrize(
    ("recipe", "table", "cell", "row"),
    [
        ("paper_two_task", "two-task", "A→B: A", f"{BOTH}, ACL"),
        ("paper_two_task_fc100", "two-task-fc100", "A→B: A", "FC100 + mini-ImageNet, ACL"),
        ("paper_three_task", "diverse", "A→B→C→D: average", f"{BOTH} + FC100, ACL"),
        ("paper_split_domain", "split-mnist", "domain 5-task", "ACL, meta-finetuned with 5 tasks"),
        ("paper_split_class", "split-mnist", "class 5-task", "ACL, meta-finetuned with 5 tasks"),
        ("fast_split_class", "split-mnist", "class 5-task", None),
        ("fast_everyday", "split-mnist", "class 5-task", None),
    ],
)
def test_what_the_papers_recipes_write_into_a_file_is_what_its_rows_say(
    recipe: str, table: str, cell: str, row: str | None
) -> None:
    made = get_recipe(recipe)
    trained = Provenance.read(provenance(made), architecture=architecture_of(made.learner))
    found = PROTOCOLS[table].row(trained, cell)
    assert (found.name if found else None) == row
    assert parse_json(json.dumps(trained.to_dict()), Provenance, where="line") == trained


def test_at_most_one_row_of_a_cell_says_the_same() -> None:
    for protocol in PROTOCOLS.values():
        for cell in protocol.cells:
            said = [tuple(sorted(r.says.items())) for r in protocol.published if cell in r.cells]
            assert len(set(said)) == len(said), (protocol.name, cell)


def test_what_shipped_learners_stand_beside() -> None:
    three = open_learner("three-task").trained
    assert three.sets == ("omniglot", "mini_imagenet", "fc100")
    row = PROTOCOLS["diverse"].row(three, "A→B→C→D: average")
    assert row is not None
    assert row.name == "Omniglot + mini-ImageNet + FC100, ACL"
    assert open_learner("quick").trained.shots == 5
    trained = {name: open_learner(name).trained for name in ("two-task", "three-task", "quick", "everyday")}
    assert {n for n, t in trained.items() if PROTOCOLS["two-task"].row(t, "A: A")} == {"two-task"}
    assert not any(PROTOCOLS["shots"].row(t, "class 5-task, 5 shots") for t in trained.values())


def test_impossible_options_are_refused_by_name() -> None:
    with pytest.raises(InputError, match="--runs"):
        Options(runs=0)
