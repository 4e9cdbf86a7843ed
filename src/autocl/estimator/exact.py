"""Run a learner so that results do not depend, bit for bit, on how a stream is cut into calls.

Matrix products round differently for different numbers of rows. So demos are always learned one at a time,
queries are always answered in blocks of one size (filled up with copies), and no image is ever encoded all
alone: the convolution's result for an image is the same beside one neighbour or beside thirty, but not
without any. The last is an observation (oneDNN, tests/test_estimator_exact.py), not a promise of the library.

Inference mode saves a tenth of the time of one demo. Its tensors cannot take part in gradients, so what
leaves these functions is a copy made outside.

Shape legend: n = images, F = features, N = outputs of the learner, K = classes seen so far.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import Tensor

from autocl.errors import StateError
from autocl.estimator.hooks import NoticingNovelty
from autocl.estimator.overflow import place_of, scores
from autocl.estimator.state import Memory
from autocl.learner import Learner
from autocl.learner.state import LearnerState

ENCODE_BLOCK = 32
"""Images encoded at once: one chunk of the fused Conv-4 kernels at 32×32 pixels."""
ASK_BLOCK = 16
"""Queries answered at once. A single query pays for all of them, but the time of a call hardly grows."""
TEST_FIRST = 16
"""Demos of a stream that are all predicted before they are learned."""


def encode(learner: Learner, x: Tensor) -> Tensor:
    """Features [n, F] of images [n, C, H, W]."""
    device = learner.device
    parts = []
    with torch.inference_mode():
        for block in torch.split(x, ENCODE_BLOCK):
            n = len(block)
            if n % 2:
                block = torch.cat([block, block[-1:]])
            parts.append(learner.encode(block.to(device))[:n])
    return torch.cat(parts)


def show(learner: Learner, memory: Memory, f: Tensor, outputs: list[int], *, test: bool) -> Memory:
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
    tested, right, seen = memory.tested, memory.right, memory.seen
    with torch.inference_mode(), _solvable():
        for i, output in enumerate(outputs):
            demo = f[None, i : i + 1]
            if test and counts[output] and (seen < TEST_FIRST or seen % learner.test_every == 0):
                members = [new.get(m, old) for m, old in enumerate(memory.members)]
                answers = scores(learner, members, demo)[0, 0, : len(counts)]
                tested += 1
                right += int(_masked(answers, counts).argmax()) == output
            at, place = place_of(learner, output)
            y = torch.full((1, 1), place, device=f.device)
            new[at] = learner.learn_features(demo, y, new.get(at, memory.members[at]))
            counts[output] += 1
            seen += 1
        finite = all(bool(t.isfinite().all()) for state in new.values() for t in state.tensors.values())
    if not finite:
        raise StateError(
            f"NaN or infinity in the learner's state at demo {sum(counts)}: these {len(outputs)} demos were "
            "not learned, the memory before them stands. Such a long stream is too much for this learner"
        )
    kept = tuple(new[m].fork() if m in new else old for m, old in enumerate(memory.members))
    last = (f[-1].clone(), *place_of(learner, outputs[-1]))
    return replace(memory, members=kept, counts=tuple(counts), tested=tested, right=right, last=last)


def answer(learner: Learner, memory: Memory, f: Tensor) -> Tensor:
    """Scores [n, K] of queries with features f [n, F], in the order of `memory.labels`."""
    parts = []
    with torch.inference_mode(), _solvable():
        for rows in _blocks(f):
            parts.append(scores(learner, memory.members, rows)[0, :, : len(memory.labels)])
    answers = torch.cat(parts)[: len(f)]
    if not bool(answers[:, torch.tensor(memory.counts) > 0].isfinite().all()):
        raise StateError(
            f"after {memory.seen} demos the learner's answers are no longer finite: roll it back"
        )
    return _masked(answers, memory.counts)


def notice(learner: NoticingNovelty, memory: Memory, f: Tensor) -> Tensor:
    """Novelty [n] of queries with features f [n, F]: that for the state which finds it least new."""
    with torch.inference_mode(), _solvable():
        parts = [
            torch.stack([learner.novelty_features(rows, state)[0] for state in memory.members]).amin(0)
            for rows in _blocks(f)
        ]
    return torch.cat(parts)[: len(f)]


def _blocks(f: Tensor) -> Iterator[Tensor]:
    """Features [n, F] in blocks [1, ASK_BLOCK, F]; copies of the last row fill the last one up."""
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
