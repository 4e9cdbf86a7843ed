"""The read-out of one learner behind the encoder of another."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import tiny
from tools.graft import graft, make_record
from tools.record import write_record

from autocl.encoders import EncoderConfig
from autocl.errors import InputError
from autocl.learner import FastWeightLearner, ReadoutLearner
from autocl.learner.config import LearnerConfig, ReadoutLearnerConfig
from autocl.learner.find import find_learner
from autocl.readouts import ReadoutConfig
from autocl.training.trainer import train

SIZE = {"channels": 1, "height": 16, "width": 16, "encoder": EncoderConfig(width=4)}


def test_each_half_is_that_of_its_giver(tmp_path: Path) -> None:
    readout = ReadoutLearner(ReadoutLearnerConfig(readout=ReadoutConfig(kind="normal-gamma"), **SIZE))
    with torch.no_grad():
        for weight in readout.readout.parameters():
            weight.add_(0.5)
    encoder = FastWeightLearner(LearnerConfig(model_width=32, heads=2, standardise="image", **SIZE))
    files = [str(x.save_pretrained(tmp_path / f"{i}.safetensors")) for i, x in enumerate((readout, encoder))]
    made = graft(*files)
    x = torch.randn(3, 1, 16, 16)
    assert torch.equal(made.eval().encode(x), encoder.eval().encode(x))
    assert made.config.standardise == "image", "pixels as the encoder knows them"
    for name, weight in readout.readout.state_dict().items():
        assert torch.equal(made.readout.state_dict()[name], weight)
    with pytest.raises(InputError, match="fast weights"):
        graft(files[1], files[0])


@pytest.mark.parametrize("encoder", ["mine", "quick"])
@pytest.mark.parametrize(
    "made", [{"recipe": {"name": "quick"}}, {"command": "python -m tools.train_universal zoo"}]
)
def test_what_was_not_grafted_is_not_replaced(encoder: str, made: dict[str, Any], tmp_path: Path) -> None:
    write_record("mine", made, tmp_path)
    with pytest.raises(InputError, match="mine is in the zoo and was not made by grafting"):
        make_record("everyday", encoder, "mine", tmp_path)


def test_the_record_keeps_how_an_encoder_was_trained_that_does_not_ship(tmp_path: Path) -> None:
    run = tmp_path / "run"
    best = train(tiny(steps=1), run)
    first = make_record("everyday", str(run), "mine", tmp_path)
    assert first["command"] == f"python -m tools.graft everyday {run} mine"
    assert first["encoder"]["fingerprint"] == find_learner(best).fingerprint()
    assert first["encoder"]["recipe"]["seed"] == 1
    assert first["encoder"]["data"]
    write_record("mine", first, tmp_path)
    train(tiny(steps=2), tmp_path / "other").rename(best)  # what lies there now is not what was grafted
    assert make_record("everyday", "mine", "mine", tmp_path) == first, "another read-out, the same encoder"
    assert make_record("everyday", "quick", "mine", tmp_path) == {
        "command": "python -m tools.graft everyday quick mine"
    }
