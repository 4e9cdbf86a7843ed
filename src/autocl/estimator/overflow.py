"""More classes than a learner has outputs: several states of it share them.

Class i belongs to state i // N, and only that state learns its demos. `Learner.predict_together` says how
states answer together. A learner whose state grows needs only one. (Chosen on Omniglot's validation classes;
`benchmarks/overflow.py` measures it.)

Shape legend: B = streams, Q = queries, F = features, N = outputs of the learner, S = states.
"""

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Literal

from torch import Tensor

from autocl.errors import InputError
from autocl.estimator.labels import some
from autocl.estimator.state import Memory
from autocl.learner import Learner
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
    if total > N and overflow == "error" and not learner.grows:
        raise InputError(
            f"{total} classes, but this learner has {N} outputs (new now: {some(new)}); nothing was "
            "learned. Use a learner with more outputs (autocl zoo), or overflow='ensemble'"
        )
    members = memory.members
    if learner.grows:
        members = (learner.grow(members[0], total),)
    while not learner.grows and len(members) * N < total:
        members = (*members, learner.initial_state().fork())
    return replace(
        memory, members=members, labels=(*memory.labels, *new), counts=(*memory.counts, *[0] * len(new))
    )


def place_of(learner: Learner, output: int) -> tuple[int, int]:
    """The member that class number `output` belongs to, and its output there."""
    return (0, output) if learner.grows else divmod(output, learner.config.n_classes)


def scores(learner: Learner, states: Sequence[LearnerState], f: Tensor) -> Tensor:
    """Scores [B, Q, S·N] of queries with features f [B, Q, F]; with one state, the learner's own logits."""
    if len(states) == 1:
        return learner.predict_features(f, states[0])
    return learner.predict_together(f, states)
