"""What a learner got wrong: the digits themselves, with its answers.

Shape legend: Q = queries, N = outputs.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autocl.baselines.base import Method
from autocl.data.stream import Stream


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """A test image that the learner misread after the whole stream."""

    image: npt.NDArray[np.uint8]
    """[H, W]."""
    truth: str
    answer: str
    sure: float
    """Probability it gave its answer."""


def mistakes(method: Method, streams: Sequence[Stream], *, run: int = 0) -> tuple[list[Mistake], int]:
    """All mistakes of one run at the end of its stream, the surest first, and how many images were asked."""
    found, asked = [], 0
    for task in streams[run].tasks:
        names = _names(streams[run])
        _, images = task.sets
        index, labels = task.queries[0], task.query_labels[0]
        shares = method.predict(images, index)[run].double().softmax(-1)
        sure, answers = shares.max(-1)
        asked += len(answers)
        for i in (answers != labels).nonzero()[:, 0].tolist():
            image = images.images[int(index[i])][0]
            answer = names.get(int(answers[i]), "?")
            truth = names[int(labels[i])]
            found.append(Mistake(image=image, truth=truth, answer=answer, sure=float(sure[i])))
    return sorted(found, key=lambda m: -m.sure), asked


def _names(stream: Stream) -> dict[int, str]:
    """What each output means: a digit, or, where tasks share two outputs, even and odd."""
    if stream.scenario == "class":
        return {n: str(n) for n in range(stream.n_outputs)}
    return {0: "even", 1: "odd"}
