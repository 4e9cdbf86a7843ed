"""From a run to a shipped learner and its card."""

from pathlib import Path

from tiny import tiny
from tools.record import read_records
from tools.ship import ship, write_card

from autocl.learner import Learner
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
