"""Learners: pure functions from (state, example) to state. One interface, several kinds."""

from autocl.learner.base import Learner
from autocl.learner.config import LearnerConfig, ReadoutLearnerConfig
from autocl.learner.fast import FastWeightLearner
from autocl.learner.readout import ReadoutLearner
from autocl.learner.state import LearnerState

__all__ = [
    "FastWeightLearner",
    "Learner",
    "LearnerConfig",
    "LearnerState",
    "ReadoutLearner",
    "ReadoutLearnerConfig",
]
