"""The examination of experts on a memory: every prototype is asked about as if it had not been learned.

Shape legend: B = streams, E = experts, S = sharpnesses, M = prototypes, N = classes.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from autocl.readouts.memory import LARGEST, UNIT_FROM
from autocl.readouts.moments import Moments, compiles

SHARPNESS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
"""Factors on scores under which experts are examined."""
FACTS = 9
"""Numbers that describe the shape of a stream."""
UNSEEN = -1e4
"""Score of a class without demos."""
LONGEST = 2000
"""Demos of the longest streams of meta-training; longer ones are described to the combiner as so long."""


class Examination(NamedTuple):
    """Answers of the experts about prototypes that were left out."""

    left_out: Tensor
    """[B, E, M, N], scores."""
    label: Tensor
    """[B, M], the right answers."""
    weight: Tensor
    """[B, M], sums to one over the prototypes that can be asked about, or is zero if none can."""
    loss: Tensor
    """[B, E, S], cross-entropy under each sharpness."""
    accuracy: Tensor
    """[B, E]."""
    facts: Tensor
    """[B, FACTS], the shape of the stream."""
    demos: Tensor
    """[B, N], demos of each class."""


def examine(left_out: Tensor, moments: Moments) -> Examination:
    """Ask the experts about each prototype as if it had not been learned.

    Marks are means over single demos whose class has another prototype; where there is none, chance. Places
    behind the last such demo are left away, which saves most of the time once prototypes have been merged.
    """
    seen, places = moments.size > 0, moments.asked
    taking, target = moments.examined[:, :places], moments.target[:, :places]
    label = moments.memory.label[:, :places]
    number = taking.sum(1)
    weight = taking / number.clamp(min=1)[:, None]
    classes = seen.sum(1).clamp(min=1).to(target.dtype)
    none = (number == 0)[:, None]
    scores = left_out.masked_fill(~seen[:, None, None], UNSEEN)
    label = label.clamp(min=0)
    if compiles(scores):
        from autocl.readouts import compiled

        one = compiled.marks(scores[0], label[0], weight[0], seen[0])
        loss, accuracy = (t[None].to(scores.dtype) for t in one)
    else:
        loss, accuracy = marks(scores, target, weight)
    return Examination(
        left_out=scores,
        label=label,
        weight=weight,
        loss=torch.where(none[..., None], classes.log()[:, None, None], loss),
        accuracy=torch.where(none, 1 / classes[:, None], accuracy),
        facts=facts_of(moments),
        demos=moments.size,
    )


def marks(scores: Tensor, target: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Cross-entropy [B, E, S] under each sharpness, and accuracy [B, E].

    Args:
        scores: [B, E, M, N].
        target: [B, M, N], one-hot.
        weight: [B, M], of each prototype in the mean.
    """
    losses = []
    for sharpness in SHARPNESS:
        said = (sharpness * scores).log_softmax(-1)
        losses.append(-((said * target[:, None]).sum(-1) * weight[:, None]).sum(-1))
    right = (scores.argmax(-1) == target.argmax(-1)[:, None]).to(target.dtype)
    return torch.stack(losses, -1), (right * weight[:, None]).sum(-1)


def facts_of(moments: Moments) -> Tensor:
    """The shape of a stream, [B, FACTS], within the range of meta-training: trust does not grow for ever.

    In meta-training a prototype stood for more than `LONGEST / PLACES` demos only where a memory was small,
    and kernels on few prototypes are bad. A long stream in a large memory must not look like one of those.
    """
    n = moments.memory.demos
    classes = (moments.size > 0).sum(1).clamp(1, 100).to(n.dtype)
    places = moments.used.sum(1).clamp(min=1)
    D = moments.mean.shape[-1]
    facts = [
        n.clamp(1, LONGEST).log(),
        classes.log(),
        (n / classes).clamp(1, 40).log(),
        moments.examined.sum(1) / moments.memory.sample.sum(1).clamp(min=1),
        moments.spread[:, 0, 0] if D >= UNIT_FROM else torch.full_like(n, 0.5),
        torch.full_like(n, float(max(D, 16))).log(),
        (n.clamp(max=LONGEST) / places).clamp(1, 40).log(),
        *shape_of(moments),
    ]
    return torch.stack(facts, dim=1)


def shape_of(moments: Moments) -> tuple[Tensor, Tensor]:
    """Log of the number of directions in which demos scatter, and the share of that within classes, both [B].

    The first is (tr S)² / tr S² of their scatter S: many for one demo of each class that lie apart from each
    other, few for drawings before a network of photographs. Even where nothing can be examined it can be had.
    """
    memory = moments.memory
    around = moments.around(moments.mean, memory.demos[:, None])
    if around is None:
        x = (memory.prototype - moments.mean) * memory.weight.sqrt()[..., None]
        around = x @ x.mT
    whole = around.diagonal(dim1=1, dim2=2).sum(1).clamp(min=1e-9)
    directions = whole.square() / around.square().sum((1, 2)).clamp(min=1e-18)
    between = (moments.size * (moments.centre - moments.mean).square().sum(-1)).sum(1)
    return directions.clamp(1, LARGEST).log(), (1 - between / whole).clamp(0, 1)
