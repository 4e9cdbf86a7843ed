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
from scipy.linalg import lapack
from torch import Tensor, nn
from torch.nn import functional as F

from autocl.errors import StateError
from autocl.ops.threads import in_threads
from autocl.readouts import kernel, reading
from autocl.readouts.combiner import SHARPNESS, STRICTNESS, Combiner, Examination, class_sizes
from autocl.readouts.experts import Experts
from autocl.readouts.moments import Moments

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


def solve_kernels(
    distance: Tensor, rate: Tensor, diagonal: Tensor, target: Tensor, asked: int
) -> tuple[Tensor, Tensor]:
    """As `experts.solve_kernels`, for one stream: one matrix serves all kernels, since new memory is slow."""
    E, M = diagonal.shape[1:]
    near = np.empty((M, M))
    dual, last = np.empty((E, M, target.shape[2])), np.empty((E, asked))
    far, rates, own = (_numbers(t[0]) for t in (distance, rate, diagonal))
    for e in range(E):
        kernel.gaussian(far, rates[e], own[e], near)
        # LAPACK counts columns first: its upper triangle is the lower one here.
        _, failed = lapack.dpotrf(near.T, lower=0, overwrite_a=1, clean=0)
        if failed:
            raise StateError("the memory has become unusable: a kernel matrix is not positive definite")
        dual[e], _ = lapack.dpotrs(near.T, target[0].numpy(), lower=0)
        last[e] = lapack.dpotri(near[M - asked :, M - asked :].T, lower=0)[0].diagonal()
    return torch.from_numpy(dual)[None], torch.from_numpy(last)[None]


@dataclass(frozen=True, eq=False)
class Answers:
    """Experts that have been examined and a combiner, as arrays for the kernels."""

    plan: tuple[Arrays, Arrays]
    trust: Arrays
    weights: Arrays
    dtype: Any

    @staticmethod
    def of(experts: Experts, moments: Moments, exam: Examination, combiner: Combiner) -> "Answers":
        """Decide whom to trust, as `Combiner.judge` does, and lay everything out."""
        share, sharpness = combiner.gate(exam)
        H = len(combiner.reader.out.weight[0])
        given = share.shape[1] + 5
        each, among = combiner.reader.each, combiner.reader.among[0]
        assert isinstance(each[0], nn.Linear)
        assert isinstance(each[2], nn.Linear)
        assert isinstance(among, nn.Linear)
        # What the reader is told of the stream is the same for all its queries: a part of the bias.
        told = torch.cat([exam.facts[0] / 3, 3 * share[0]])
        bias = (each[0].bias + each[0].weight[:, given:] @ told).detach().numpy()
        weights = (
            *(_numbers(each[0].weight[:, :given].T), _numbers(each[2].weight.T), _numbers(each[2].bias)),
            *(_numbers(among.weight[:, :H].T), _numbers(among.weight[:, H:].T), _numbers(among.bias)),
            *(_numbers(combiner.reader.out.weight[0]), float(combiner.reader.out.bias)),
        )
        seen = (exam.demos[0] > 0).numpy()
        gate = (seen, *(_numbers(t[0].double()) for t in (share, sharpness)))
        size = _numbers(class_sizes(exam.demos)[0])
        exams = (_numbers(exam.left_out[0].double()), exam.label[0].numpy(), exam.weight[0].numpy())
        alone, read = reading.mean_losses(*exams, *gate, size, bias, weights)
        trusted = torch.sigmoid(combiner.trust + STRICTNESS * (alone - read))
        trust = (*gate, float(trusted), size, bias)
        return Answers(_plan(experts, moments), trust, weights, bias.dtype)

    def __call__(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Logits [Q, N] and novelty [Q] of queries x [Q, D], float64."""
        logits = np.empty((len(x), len(self.trust[0])), self.dtype)
        novelty = np.empty(len(x), self.dtype)
        run = partial(kernel.answer, self.plan, self.trust, self.weights)
        in_threads(run, 256, x.numpy(), logits, novelty)
        return torch.from_numpy(logits), torch.from_numpy(novelty)


def _plan(experts: Experts, moments: Moments) -> tuple[Arrays, Arrays]:
    """Everything that queries are compared with; all columns beside each other in one matrix."""
    near, white, linear = experts.kernels, experts.whitened, experts.linear
    level = None if white.inner.level is None else 1 / float(white.inner.level)
    # Places for whole registers: those that are added are infinitely far from everything.
    more = -near.square.shape[1] % kernel.LANES
    columns = (*(F.pad(of.columns[0], (0, more)) for of in (near, white)), white.inner.factor[0])
    wide = torch.cat([*columns, *(one.columns[0] for one in linear)], 1)
    wide = F.pad(wide, (0, -wide.shape[1] % kernel.TILE)).view(len(wide), -1, kernel.TILE).transpose(0, 1)
    square, white_square = (F.pad(of.square[0], (0, more), value=torch.inf) for of in (near, white))
    dual, white_dual = (F.pad(of.dual[0].mT, (0, more)) for of in (near, white))
    kernels = (
        *(_numbers(t) for t in (square, near.rate[0], dual, white_square)),
        (0.0, 1.0) if level is None else (level, -level),
        float(white.rate[0, 0]),
        _numbers(white_dual[0]),
    )
    origin = torch.stack(
        [moments.mean[0, 0] * 0 if one.origin is None else one.origin[0, 0] for one in linear]
    )
    # Seen from its origin, a query's product with a column is less by the origin's.
    offset = [
        one.offset[0, 0] - (0 if one.origin is None else one.origin[0, 0] @ one.columns[0]) for one in linear
    ]
    groups = (
        _numbers(torch.cat(offset)),
        _numbers(torch.cat([one.groups.owner[0] for one in linear])),
        np.repeat(np.arange(len(linear)), [one.columns.shape[2] for one in linear]),
        _numbers(origin),
        np.array([one.origin is not None for one in linear]),
        np.array([float(one.scale) for one in linear]),
        float(moments.spread),
    )
    return (_numbers(wide), columns[2].shape[1], *kernels), groups


def _numbers(t: Tensor) -> Any:
    return t.detach().contiguous().numpy()
