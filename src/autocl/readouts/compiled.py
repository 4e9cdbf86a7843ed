"""The universal read-out's answers by compiled kernels: one stream, on the CPU, without gradients.

The same function as `experts`, `combiner` and `universal` define, tens of times faster for one query.

Shape legend: Q = queries, D = dimensions, E = experts, P = prototypes that are examined, N = classes,
H = hidden units.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from autocl.ops.threads import in_threads
from autocl.readouts import kernel, reading
from autocl.readouts.combiner import Combiner, Trust, class_sizes
from autocl.readouts.examination import SHARPNESS

Arrays = tuple[Any, ...]


def marks(left_out: Tensor, label: Tensor, weight: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
    """Cross-entropy [E, S] under each sharpness, and accuracy [E], of scores left_out [E, P, N].

    Args:
        left_out: scores.
        label: [P].
        weight: [P], of each in the mean.
        seen: [N], whether a class takes part.
    """
    assert all(sharpness == 2**s for s, sharpness in enumerate(SHARPNESS))
    loss = np.empty((len(left_out), len(SHARPNESS)))
    accuracy = np.empty(len(left_out))
    reading.marks(*(t.numpy() for t in (left_out.contiguous(), label, weight, seen)), loss, accuracy)
    return torch.from_numpy(loss), torch.from_numpy(accuracy)


@dataclass(frozen=True, eq=False)
class Answers:
    """Experts that have been examined and a combiner, as arrays for the kernels."""

    plan: tuple[Arrays, Arrays]
    trust: Arrays
    weights: Arrays
    dtype: Any

    @staticmethod
    def of(plan: tuple[Arrays, Arrays], trust: Trust, combiner: Combiner) -> "Answers":
        """Lay everything out."""
        H = len(combiner.reader.out.weight[0])
        given = trust.share.shape[1] + 5
        each, among = combiner.reader.each, combiner.reader.among[0]
        assert isinstance(each[0], nn.Linear)
        assert isinstance(each[2], nn.Linear)
        assert isinstance(among, nn.Linear)
        # What the reader is told of the stream is the same for all its queries: a part of the bias.
        told = torch.cat([trust.facts[0] / 3, 3 * trust.share[0]])
        first = _numbers(each[0].bias + each[0].weight[:, given:] @ told)
        weights = (
            *(_numbers(each[0].weight[:, :given].T), _numbers(each[2].weight.T), _numbers(each[2].bias)),
            *(_numbers(among.weight[:, :H].T), _numbers(among.weight[:, H:].T), _numbers(among.bias)),
            *(_numbers(combiner.reader.out.weight[0]), float(combiner.reader.out.bias)),
        )
        gate = (
            _numbers(trust.demos[0] > 0),
            *(_numbers(t[0].double()) for t in (trust.share, trust.sharpness)),
        )
        fast = _numbers(trust.last[0]), _numbers(trust.bias[0])
        size = _numbers(class_sizes(trust.demos)[0])
        return Answers(plan, (*gate, float(trust.reader), size, first, *fast), weights, first.dtype)

    def __call__(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Logits [Q, N] and novelty [Q] of queries x [Q, D], float64."""
        logits = np.empty((len(x), len(self.trust[0])), self.dtype)
        novelty = np.empty(len(x), self.dtype)
        run = partial(kernel.answer, self.plan, self.trust, self.weights)
        in_threads(run, 256, x.numpy(), logits, novelty)
        return torch.from_numpy(logits), torch.from_numpy(novelty)


def _numbers(t: Tensor) -> Any:
    return t.detach().contiguous().numpy()
