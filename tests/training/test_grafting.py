"""The read-out of one learner behind the encoder of another."""

from pathlib import Path

import pytest
import torch
from tools.graft import graft

from autocl.encoders import EncoderConfig
from autocl.errors import InputError
from autocl.learner import FastWeightLearner, ReadoutLearner
from autocl.learner.config import LearnerConfig, ReadoutLearnerConfig
from autocl.readouts import ReadoutConfig

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
