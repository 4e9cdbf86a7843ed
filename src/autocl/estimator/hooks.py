"""What a learner may offer beyond learning and predicting. An estimator uses it where it is there.

Shape legend: B = streams, Q = queries, F = features.
"""

from typing import Protocol, runtime_checkable

from torch import Tensor

from autocl.learner.state import LearnerState


@runtime_checkable
class Forgetting(Protocol):
    """A learner that can undo a class exactly, as it is possible where demos are kept as sums by class."""

    def forget(self, state: LearnerState, output: int) -> LearnerState:
        """The state as if no demo of that output had been shown. The outputs behind it move up by one."""


@runtime_checkable
class NoticingNovelty(Protocol):
    """A learner that can tell how little a query resembles all demos, whatever their class."""

    def novelty_features(self, f: Tensor, state: LearnerState) -> Tensor:
        """[B, Q] in 0 (like the demos) … 1 (like none of them), of features f [B, Q, F]."""
