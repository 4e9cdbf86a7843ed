"""More classes than a learner has outputs: several states of it share them.

Class i belongs to state i // N, and only that state learns its demos. Logits of different states were never
trained to be compared. But a ridge read-out is a regression, and the sums of different states may be added
up: one regression over all demos and classes, the same as a single state with enough outputs would have. So
where a learner has one, it alone decides; else the highest logit wins, for want of anything better. (Chosen
on Omniglot's validation classes; `benchmarks/overflow.py` measures it.)

Shape legend: B = streams, Q = queries, F = features, N = outputs of the learner, S = states.
"""

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from autocl.errors import InputError
from autocl.estimator.labels import some
from autocl.estimator.state import Memory
from autocl.learner.fast import Learner
from autocl.learner.state import LearnerState

Overflow = Literal["error", "ensemble"]
"""What to do about a class too many: refuse it, or let a further state of the learner take it."""


def make_room(learner: Learner, memory: Memory, labels: Sequence[Hashable], *, overflow: Overflow) -> Memory:
    """The memory with an output for each of these labels, and with further states if they are needed.

    Raises:
        InputError: when there are too many and they may not overflow.
    """
    new = [label for label in dict.fromkeys(labels) if label not in memory.labels]
    if not new:
        return memory
    N, total = learner.config.n_classes, len(memory.labels) + len(new)
    if overflow not in ("error", "ensemble"):
        raise InputError(f"overflow={overflow!r} is not possible: choose 'error' or 'ensemble'")
    if total > N and overflow == "error":
        raise InputError(
            f"{total} classes, but this learner has {N} outputs (new now: {some(new)}); nothing was "
            "learned. Use a learner with more outputs (autocl zoo), or overflow='ensemble'"
        )
    members = memory.members
    while len(members) * N < total:
        members = (*members, learner.initial_state().fork())
    return replace(
        memory, members=members, labels=(*memory.labels, *new), counts=(*memory.counts, *[0] * len(new))
    )


def scores(learner: Learner, states: Sequence[LearnerState], f: Tensor) -> Tensor:
    """Scores [B, Q, S·N] of queries with features f [B, Q, F]; with one state, the learner's own logits."""
    if len(states) == 1:
        return learner.predict_features(f, states[0])
    if learner.readout is None:
        return torch.cat([learner.predict_features(f, state) for state in states], dim=-1)
    A = torch.stack([state.tensors["readout.A"] for state in states]).sum(0)
    C = torch.cat([state.tensors["readout.C"] for state in states], dim=-1)
    return learner.readout.read(f, {"A": A, "C": C})
