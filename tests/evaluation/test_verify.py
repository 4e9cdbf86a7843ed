"""A learner compared with its card: agreement, other weights, other images, missing images."""

from dataclasses import replace

import pytest
from known_methods import Known, OnlyLast, known_entry

from autocl import zoo
from autocl.cli.main import main
from autocl.errors import DataError
from autocl.evaluation.entry import Entry
from autocl.evaluation.verify import Check, quick_check, verify


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

    def nowhere(_: object) -> None:
        raise DataError("get it with autocl data get mnist")

    for compared in verify(replace(entry, load=nowhere), check):  # type: ignore[arg-type]
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
