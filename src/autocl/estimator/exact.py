"""Run a learner so that results do not depend, bit for bit, on how a stream is cut into calls.

Matrix products round differently for different numbers of rows. So demos are learned one at a time, queries
are answered in blocks of one size (filled up with copies), and no image is encoded all alone, unless the
learner or the encoder is known not to mind, as kernels that take one after the other do not. A convolution's
result for an image is the same beside one neighbour or beside thirty, but by `torch.conv2d` not without any.
These are observations (oneDNN, tests/test_estimator_exact.py), not promises of the library.

Where there are more classes than a learner has outputs, several states of it share them: class i belongs to
state i // N, and only that state learns its demos. `Learner.predict_together` says how states answer
together. A learner whose state grows needs only one. (Chosen on Omniglot's validation classes;
`benchmarks/overflow.py` measures it.)

Inference mode saves a tenth of the time of one demo. Its tensors cannot take part in gradients, so what
leaves these functions is a copy made outside.

Shape legend: n = images, B = streams, Q = queries, F = features, N = outputs of the learner, S = states,
K = classes seen so far.
"""

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Literal, Protocol, get_args, runtime_checkable

import torch
from torch import Tensor

from autocl.config import check_choice
from autocl.errors import InputError, StateError
from autocl.estimator.labels import preview
from autocl.estimator.state import ClassifierState
from autocl.learner import Learner
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

    def independent(self, f: Tensor) -> bool:
        """Whether rows of f [B, Q, F] mean the same, bit for bit, beside any others."""


Overflow = Literal["error", "ensemble"]
"""Policy for classes beyond the outputs: refuse them, or let a further state of the learner take them."""


def ensure_outputs(
    learner: Learner, memory: ClassifierState, labels: Sequence[Hashable], *, overflow: Overflow
) -> ClassifierState:
    """The memory with an output for each of these labels, and with further states if they are needed.

    Raises:
        InputError: when there are too many and they may not overflow.
    """
    new = [label for label in dict.fromkeys(labels) if label not in memory.labels]
    if not new:
        return memory
    N, total = learner.config.n_classes, len(memory.labels) + len(new)
    check_choice("overflow", overflow, get_args(Overflow))
    if total > N and overflow == "error" and not learner.grows:
        raise InputError(
            f"{total} classes, but this learner has {N} outputs (new now: {preview(new)}); nothing was "
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


ENCODE_BLOCK, LONG_BLOCK = 32, 512
"""Images encoded at once: one chunk of the fused Conv-4 kernels at 32×32 pixels; more where an encoder is
known not to mind, which saves a tenth of the time, but not all of a large set, for the sake of memory."""
ASK_BLOCK = 32
"""Queries answered at once. A single query pays for all of them, but the time of a call hardly grows. Vector
units compute exp and log of 32 numbers at a time, and what is left over in another way, which may differ in
the last bit: with a multiple of 32 nothing is left over, wherever a query stands."""
TEST_FIRST = 16
"""Demos of a stream that are all predicted before they are learned."""


def encode(learner: Learner, x: Tensor) -> Tensor:
    """Features [n, F] of images [n, C, H, W]."""
    device = learner.device
    parts = []
    with torch.inference_mode():
        independent = learner.encoder.independent(x[:1].to(device))
        for block in torch.split(x, LONG_BLOCK if independent else ENCODE_BLOCK):
            n, block = len(block), block.to(device)
            if n % 2 and not independent:
                block = torch.cat([block, block[-1:]])
            parts.append(learner.encode(block)[:n])
    return torch.cat(parts)


def learn_exact(
    learner: Learner, memory: ClassifierState, f: Tensor, outputs: list[int], *, test: bool
) -> ClassifierState:
    """Learn demos with features f [n, F] of the classes whose place in `memory.labels` is given.

    Args:
        learner: whose memory it is.
        memory: must know all labels already.
        f: features.
        outputs: [n].
        test: whether to predict demos of classes that have demos before learning them: the first few, then
            one in `learner.test_every`.

    Returns:
        The memory afterwards.

    Raises:
        StateError: it would hold NaN or infinity.
    """
    counts = list(memory.counts)
    new: dict[int, LearnerState] = {}
    tested, right, seen = memory.n_tested, memory.n_correct, memory.seen
    start = 0
    with torch.inference_mode(), _solvable():
        together = len(memory.members) == 1 and learner.independent(f[None])
        while start < len(outputs):
            if test and counts[outputs[start]] and _is_tested(learner, seen):
                members = [new.get(m, old) for m, old in enumerate(memory.members)]
                answers = scores(learner, members, f[None, start : start + 1])[0, 0, : len(counts)]
                tested += 1
                right += int(_masked(answers, counts).argmax()) == outputs[start]
            stop = start + 1
            if together:
                after = range(start + 1, len(outputs))
                tests = (i for i in after if test and _is_tested(learner, seen + i - start))
                stop = next(tests, len(outputs))
            places = [place_of(learner, output) for output in outputs[start:stop]]
            at = places[0][0]
            y = torch.tensor([[place for _, place in places]], device=f.device)
            try:
                state = new.get(at, memory.members[at])
                new[at] = learner.learn_features(f[None, start:stop], y, state)
            except StateError as error:
                raise StateError(
                    f"NaN or infinity in the learner's state at demo {seen + stop - start}: these "
                    f"{len(outputs)} demos were not learned, the memory before them stands. Such a long "
                    "stream is too much for this learner: take another one, or start afresh (docs/limits.md "
                    "says up to which length each was measured)"
                ) from error
            for output in outputs[start:stop]:
                counts[output] += 1
            seen += stop - start
            start = stop
    kept = tuple(new[m].fork() if m in new else old for m, old in enumerate(memory.members))
    last = (f[-1].clone(), *place_of(learner, outputs[-1]))
    return replace(
        memory, members=kept, counts=tuple(counts), n_tested=tested, n_correct=right, last_demo=last
    )


def _is_tested(learner: Learner, seen: int) -> bool:
    """Whether the demo after so many others is predicted before it is learned, if its class is known."""
    return seen < TEST_FIRST or seen % learner.test_every == 0


def score_exact(learner: Learner, memory: ClassifierState, f: Tensor) -> Tensor:
    """Scores [n, K] of queries with features f [n, F], in the order of `memory.labels`."""
    K = len(memory.labels)
    with torch.inference_mode(), _solvable():
        parts = [scores(learner, memory.members, rows)[0, :, :K] for rows in _blocks(learner, f)]
    answers = torch.cat(parts)[: len(f)]
    known = answers if all(memory.counts) else answers[:, torch.tensor(memory.counts) > 0]
    if not bool(known.isfinite().all()):
        raise StateError(
            f"after {memory.seen} demos the learner's answers are no longer finite: roll it back"
        )
    return _masked(answers, memory.counts)


def novelty_exact(learner: NoticingNovelty, memory: ClassifierState, f: Tensor) -> Tensor:
    """Novelty [n] of queries with features f [n, F]: that for the state which finds it least new."""
    with torch.inference_mode(), _solvable():
        parts = [
            torch.stack([learner.novelty_features(rows, state)[0] for state in memory.members]).amin(0)
            for rows in _blocks(learner, f)
        ]
    return torch.cat(parts)[: len(f)]


def _blocks(learner: Learner | NoticingNovelty, f: Tensor) -> Iterator[Tensor]:
    """Features [n, F] in blocks [1, ASK_BLOCK, F]; copies of the last row fill the last one up.

    In one block, if the learner is known not to mind.
    """
    if learner.independent(f[None]):
        yield f[None]
        return
    for block in torch.split(f, ASK_BLOCK):
        yield torch.cat([block, block[-1:].expand(ASK_BLOCK - len(block), -1)])[None]


@contextmanager
def _solvable() -> Iterator[None]:
    """Equations without a solution are a matter of the state, too."""
    try:
        yield
    except torch.linalg.LinAlgError as error:  # type: ignore[attr-defined]
        raise StateError(f"the learner's state has become unusable: {error}") from error


def _masked(answers: Tensor, counts: Sequence[int]) -> Tensor:
    """-inf at classes without demos."""
    if all(counts):
        return answers
    return answers.masked_fill(torch.tensor(counts, device=answers.device) == 0, -torch.inf)
