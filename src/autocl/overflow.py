"""More classes than a learner has outputs: several states of it share them.

Class i belongs to state i // N, and only that state learns its demos. Logits of different states were never
trained to be compared. But a ridge read-out is a regression, and the sums of different states may be added
up: one regression over all demos and classes, the same as a single state with enough outputs would have. So
where a learner has one, it alone decides; else the highest logit wins, for want of anything better. (Chosen
on Omniglot's validation classes; `benchmarks/overflow.py` measures it.)

Shape legend: B = streams, Q = queries, F = features, N = outputs of the learner, S = states.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from autocl.learner import Learner
from autocl.state import LearnerState


def scores(learner: Learner, states: Sequence[LearnerState], f: Tensor) -> Tensor:
    """Scores [B, Q, S·N] of queries with features f [B, Q, F]; with one state, the learner's own logits."""
    if len(states) == 1:
        return learner.predict_features(f, states[0])
    if learner.readout is None:
        return torch.cat([learner.predict_features(f, state) for state in states], dim=-1)
    A = torch.stack([state.tensors["readout.A"] for state in states]).sum(0)
    C = torch.cat([state.tensors["readout.C"] for state in states], dim=-1)
    return learner.readout.read(f, {"A": A, "C": C})
