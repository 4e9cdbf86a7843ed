"""Contestants: learners and rivals in the one form in which the world table asks them.

Shape legend: B = draws of a cell, T = demos, Q = queries, F = features, N = classes.
"""

import copy
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from autocl.baselines.embedding import measuring
from autocl.evaluation.world.rivals import Answers, Rival
from autocl.evaluation.world.streams import Passage
from autocl.learner import Learner, ReadoutLearner
from autocl.learner.fast import FastWeightLearner
from autocl.learner.state import LearnerState
from autocl.readouts.universal import UniversalReadout

ONLINE = 50
"""Demos and queries that are timed one by one."""


@dataclass(frozen=True)
class LearnerContestant:
    """A learner over features of its encoder, all draws as one batch of streams."""

    name: str
    learner: Learner
    constant: bool = True
    """Whether its state has a size that depends on neither demos nor tasks."""
    probabilities: bool = True
    """Whether a softmax of its scores is meant as probabilities."""

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the learner."""
        return self.learner.fingerprint()

    def ask(self, passages: Sequence[Passage], n_labels: int) -> Answers:
        """Learn all demos, then answer."""
        x, y, q = _batch(passages)
        with measuring(self.learner):
            states = self._learned(x, y, n_labels)
            if len(states) == 1:
                scores = self.learner.predict_features(q, states[0])
            else:
                scores = self.learner.predict_together(q, states)
            scores = scores[..., :n_labels].double()
            if isinstance(self.learner, ReadoutLearner) and len(states) == 1:
                novelty = self.learner.novelty_features(q, states[0]).double()
            else:
                novelty = 1 - scores.softmax(-1).amax(-1)
        return Answers(scores.numpy(), novelty.numpy())

    def state_bytes(self, passage: Passage, n_labels: int) -> int:
        """Size of the states after one stream."""
        x, y, _ = _batch([passage])
        with measuring(self.learner):
            return sum(state.nbytes for state in self._learned(x, y, n_labels))

    def online(self, passage: Passage, n_labels: int) -> tuple[float, float]:
        """CPU seconds for one demo and for one query, when they come one by one in the middle of a stream."""
        x, y, q = _batch([passage])
        half, N = x.shape[1] // 2, self._outputs(n_labels)
        y = y % N  # One state takes all: an ensemble of states does the same for each of its labels.
        with measuring(self.learner):
            (state,) = self._learned(x[:, :half], y[:, :half], N)
            start = time.process_time()
            steps = range(half, min(half + ONLINE, x.shape[1]))
            for t in steps:
                state = self.learner.learn_features(x[:, t : t + 1], y[:, t : t + 1], state)
            learned = time.process_time()
            for i in range(ONLINE):
                self.learner.predict_features(q[:, i : i + 1], state)
            answered = time.process_time()
        return (learned - start) / len(steps), (answered - learned) / ONLINE

    def _outputs(self, n_labels: int) -> int:
        """Labels that one state of the learner takes."""
        return n_labels if self.learner.grows else min(n_labels, self.learner.config.n_classes)

    def _learned(self, x: Tensor, y: Tensor, n_labels: int) -> list[LearnerState]:
        """One state; more of them for a learner with too few outputs, as `ContinualClassifier` does it."""
        N = self._outputs(n_labels)
        if n_labels <= N:
            return [self.learner.learn_features(x, y, self.learner.initial_state(len(x), n_labels))]
        return [
            LearnerState.cat(
                [
                    self.learner.learn_features(
                        f[mine][None], labels[mine][None] - first, self.learner.initial_state()
                    )
                    for f, labels in zip(x, y, strict=True)
                    for mine in [(labels >= first) & (labels < first + N)]
                ]
            )
            for first in range(0, n_labels, N)
        ]


Contestant = Rival | LearnerContestant
"""One row of the table."""


def without_body(learner: Learner) -> Learner | None:
    """The same learner without its fast-weight body, if it has one beside or inside its read-out."""
    other = copy.deepcopy(learner)
    with torch.no_grad():
        if isinstance(other, FastWeightLearner) and other.readout is not None:
            other.head.weight.zero_()
            other.head.bias.zero_()
            return other
        if isinstance(other, ReadoutLearner) and isinstance(other.readout, UniversalReadout):
            other.readout.combiner.body.log_rate.fill_(-torch.inf)  # its fast weights become zero
            return other
    return None


def _batch(passages: Sequence[Passage]) -> tuple[Tensor, Tensor, Tensor]:
    """Demos [B, T, F], labels [B, T], queries [B, Q, F]."""
    x, y, q = (np.stack([getattr(p, name) for p in passages]) for name in ("x", "y", "queries"))
    return torch.from_numpy(x), torch.from_numpy(y), torch.from_numpy(q)
