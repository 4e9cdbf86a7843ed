"""Learners: pure functions from (state, example) to state."""

from autocl.learner.config import LearnerConfig
from autocl.learner.fast import Learner
from autocl.learner.state import LearnerState

__all__ = ["Learner", "LearnerConfig", "LearnerState"]
