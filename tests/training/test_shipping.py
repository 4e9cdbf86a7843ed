"""From a run to a shipped learner and its card."""

from pathlib import Path
from typing import Any

import pytest
from tiny import tiny
from tools.record import read_records
from tools.ship import _again, ship, write_card

from autocl.config import to_dict
from autocl.learner import Learner
from autocl.recipes import get_recipe
from autocl.training.trainer import train


def test_a_card_tells_how_the_learner_came_about(tmp_path: Path) -> None:
    first = train(tiny(steps=2), tmp_path / "first")
    train(tiny(steps=3, init_from=str(first)), tmp_path / "second")
    file = ship(tmp_path / "second", "mine", folder=tmp_path)
    learner, start = Learner.from_pretrained(file), Learner.from_pretrained(first)
    record = read_records(tmp_path)["mine"]
    assert record["started_from"] == {"recipe": "tiny", "fingerprint": start.fingerprint()}
    first.unlink()  # a card can be written long after the run is gone
    card = write_card("mine", tmp_path / "results", folder=tmp_path).read_text()
    assert learner.fingerprint() in card
    assert f"a learner of recipe `tiny`, fingerprint `{start.fingerprint()}`" in card
    assert f"seed {record['recipe']['seed']}, 3 of 3 steps" in card
    assert "Nothing yet: `autocl bench all` measures it." in card
    assert all(d["hash"][:16] in card for d in record["data"])


@pytest.mark.parametrize("start", ["two-task", "two-task-noacl"])
def test_a_command_says_once_what_it_starts_from(start: str) -> None:
    recipe: Any = {**to_dict(get_recipe("three-task")), "init_from": start, "steps": 10}
    shipped, alike = (line for line in _again(recipe).splitlines() if "train three-task" in line)
    assert "--steps 10" in shipped
    assert shipped.count("--init-from") == (start != get_recipe("three-task").init_from)
    assert alike == f"{shipped} --from-nothing"
