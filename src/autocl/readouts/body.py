"""The body of the combiner: fast weights, made anew from every examination.

They are a last layer of the reader, and a bias of each class, that explain what reader and gate got wrong:
ridge regression inside a layer, with learned keys, which is a delta rule that has converged.

Shape legend: B = streams, M = prototypes, N = classes, C = candidates, H = hidden units, K = keys.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autocl.readouts.examination import Examination


class Evidence(NamedTuple):
    """Sums over the candidates of examined prototypes, of which fast weights are made; evidence adds up."""

    keys: Tensor
    """[B, K, K], of the products of keys."""
    across: Tensor
    """[B, N, K], of the keys of each class."""
    candidacies: Tensor
    """[B, N], how often a class was a candidate."""
    key_error: Tensor
    """[B, K], of keys times errors."""
    class_error: Tensor
    """[B, N], of the errors of each class."""


class Body(nn.Module):
    """Ridge regression inside a layer: fast weights from the reader's hidden units and what it got wrong.

    Args:
        hidden: H.
        keys: K.
    """

    def __init__(self, hidden: int = 64, keys: int = 32) -> None:
        super().__init__()
        self.key = nn.Linear(hidden, keys, bias=False)
        self.log_penalty = nn.Parameter(torch.tensor(2.0))
        self.log_class_penalty = nn.Parameter(torch.tensor(4.0))
        self.log_rate = nn.Parameter(torch.tensor(0.0))

    def evidence(self, hidden: Tensor, error: Tensor, candidates: Tensor, n_classes: int) -> Evidence:
        """What an examination says.

        Args:
            hidden: [B, M, C, H], hidden units of the candidates of each prototype; zero if not asked about.
            error: [B, M, C], by how much their probabilities were too low; zero if not asked about.
            candidates: [B, M, C].
            n_classes: N.
        """
        key, error, label = self.key(hidden).flatten(1, 2), error.flatten(1, 2), candidates.flatten(1, 2)
        of_class = key.new_zeros(len(key), n_classes)
        asked = (hidden != 0).any(-1).flatten(1, 2).to(key.dtype)
        rows = label[..., None].expand_as(key)
        return Evidence(
            keys=key.mT @ key,
            across=of_class[..., None].expand(-1, -1, key.shape[-1]).scatter_add(1, rows, key),
            candidacies=of_class.scatter_add(1, label, asked),
            key_error=(key.mT @ error[..., None])[..., 0],
            class_error=of_class.scatter_add(1, label, error),
        )

    def forward(self, seen: Evidence) -> tuple[Tensor, Tensor]:
        """Fast weights: a last layer [B, H] of the reader, and a bias of each class [B, N]."""
        # One regression on keys and classes; the classes' part is diagonal, and eliminated first.
        own = 1 / (seen.candidacies + self.log_class_penalty.exp())
        penalty = self.log_penalty.exp() * torch.eye(seen.keys.shape[-1]).to(seen.keys)
        whole = seen.keys + penalty - seen.across.mT @ (own[..., None] * seen.across)
        target = seen.key_error - ((own * seen.class_error)[:, None] @ seen.across)[:, 0]
        fast = torch.linalg.solve(whole, target)
        bias = own * (seen.class_error - (seen.across @ fast[..., None])[..., 0])
        rate = self.log_rate.exp()
        return rate * (fast @ self.key.weight), rate * bias


class Halves(NamedTuple):
    """An examination split in two that know the same classes."""

    both: tuple[Tensor, Tensor]
    """1 where a prototype belongs, [B, M]; every other one of each class, however they come."""
    examined: Tensor
    """Whether a class is examined at all, [B, N]."""
    balance: Tensor
    """[B, M], what a prototype counts in the body: less than 1 in classes with more of them than the mean, so
    that frequent classes do not speak alone. Chosen on validation sets."""


def halves(exam: Examination) -> Halves:
    """Split an examination."""
    asked = (exam.weight > 0).to(exam.weight.dtype)
    of_class = F.one_hot(exam.label, exam.demos.shape[1]).to(asked.dtype) * asked[..., None]
    place = of_class.cumsum(1).gather(2, exam.label[..., None])[..., 0]
    odd = asked * (place % 2)
    number, examined = of_class.sum(1), of_class.amax(1)
    mean = asked.sum(1, keepdim=True) / examined.sum(1, keepdim=True).clamp(min=1)
    balance = (mean / number.clamp(min=1)).clamp(max=1).gather(1, exam.label)
    return Halves((odd, asked - odd), examined, balance)
