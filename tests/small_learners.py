"""Learners small enough to be made, run and saved within milliseconds. Nothing in them is trained."""

from dataclasses import replace

import torch

from autocl import EncoderConfig, Learner, LearnerConfig

GRAY = LearnerConfig(
    n_classes=5,
    channels=1,
    height=16,
    width=16,
    encoder=EncoderConfig(width=4),
    model_width=16,
    heads=2,
    label_scale=10.0,
)
RIDGE = replace(GRAY, readout="ridge", readout_keys=8)
COLOUR = replace(GRAY, channels=3)


def small(config: LearnerConfig = GRAY, seed: int = 0) -> Learner:
    torch.manual_seed(seed)
    return Learner(config).eval()
