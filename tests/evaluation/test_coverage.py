"""Every number of the paper has a status, and none is without a reason."""

from dataclasses import replace
from pathlib import Path

from known_methods import Known, known_entry

from autocl.evaluation.bench import run
from autocl.evaluation.protocol import Options
from autocl.evaluation.protocols import PROTOCOLS
from autocl.evaluation.published import Provenance
from autocl.evaluation.results import Result, read_results
from autocl.evaluation.table import coverage, uncovered

SPLIT = PROTOCOLS["split-mnist"]
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
