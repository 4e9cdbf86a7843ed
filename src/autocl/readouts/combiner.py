"""Combiner: the meta-learned part of the universal read-out. It decides whom to trust, and reads the answers.

The gate sees how the experts did in their examination and gives each a share and a sharpness; the weighted
sum of log-probabilities is the base answer. The reader sees what all experts say of the strongest candidates
of a query and corrects the base answer by a bounded amount. It is examined like the experts: as far as its
corrections do not help the prototypes that were left out, they do not count.

Nothing here depends on the number, names or order of classes, nor on the length of features.

Shape legend: B = streams, E = experts, S = sharpnesses, M = prototypes, Q = queries, N = classes,
C = candidates, H = hidden units.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

SHARPNESS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
"""Factors on scores under which experts are examined."""
FACTS = 7
"""Numbers that describe the shape of a stream."""
CANDIDATES = 6
"""Classes of a query that the reader looks at; the others keep their base score."""
LOWEST = -12.0
"""Log-probabilities are cut here before they are read."""
UNSEEN = -1e4
"""Score of a class without demos."""
BOUND = 3.0
"""The reader changes no log-probability by more."""
STRICTNESS = 20.0
"""Rate at which trust in the reader falls with the loss that it causes in its examination."""


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


class Trust(NamedTuple):
    """Result of an examination; with it any number of queries can be answered."""

    share: Tensor
    """[B, E], sums to one."""
    sharpness: Tensor
    """[B, E]."""
    reader: Tensor
    """[B], from 0 to 1."""
    facts: Tensor
    """[B, FACTS]."""
    demos: Tensor
    """[B, N]."""


class Gate(nn.Module):
    """Map from the marks of the experts to the weight of each, and the sharpness of its scores.

    One small network for all experts, which also knows which of them it judges.

    Args:
        experts: E.
        hidden: H.
    """

    def __init__(self, experts: int, hidden: int = 64) -> None:
        super().__init__()
        self.name = nn.Parameter(0.3 * torch.randn(experts, 8))
        inputs = 8 + len(SHARPNESS) + 2 + FACTS
        self.net = nn.Sequential(nn.Linear(inputs, hidden), nn.GELU(), nn.Linear(hidden, hidden), nn.GELU())
        self.out = nn.Linear(hidden, 2)
        nn.init.zeros_(self.out.weight)
        with torch.no_grad():
            self.out.bias.copy_(torch.tensor([0.0, 2.0]))

    def forward(self, exam: Examination) -> tuple[Tensor, Tensor]:
        """Shares and sharpnesses, both [B, E]."""
        B, E, _ = exam.loss.shape
        best = exam.loss.amin((1, 2), keepdim=True)
        seen = [
            self.name.expand(B, -1, -1),
            (exam.loss - best).clamp(max=3.0),
            (exam.accuracy - exam.accuracy.amax(1, keepdim=True))[..., None],
            exam.accuracy[..., None],
            exam.facts[:, None].expand(-1, E, -1),
        ]
        share, sharpness = self.out(self.net(torch.cat(seen, dim=-1))).unbind(-1)
        return share.softmax(1), sharpness.clamp(-3.0, 6.0).exp()


class Reader(nn.Module):
    """Corrections [B, Q, C] of the base scores of the candidates, from what each expert says of them.

    Args:
        experts: E.
        hidden: H.
    """

    def __init__(self, experts: int, hidden: int = 64) -> None:
        super().__init__()
        self.each = nn.Sequential(
            nn.Linear(2 * experts + 5 + FACTS, hidden), nn.GELU(), nn.Linear(hidden, hidden)
        )
        self.among = nn.Sequential(nn.Linear(3 * hidden, hidden), nn.GELU())
        self.out = nn.Linear(hidden, 1)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(self, said: Tensor, base: Tensor, rival: Tensor, size: Tensor, trust: Trust) -> Tensor:
        """Read the candidates of queries.

        Args:
            said: [B, Q, C, E], the experts' log-probabilities.
            base: [B, Q, C], the base answer's.
            rival: [B, Q, C], that of the strongest other class.
            size: [B, Q, C], log share of a class in the demos, in units of the average.
            trust: its shares and facts.
        """
        B, Q, C = base.shape

        def shared(t: Tensor) -> Tensor:
            return t[:, None, None].expand(B, Q, C, -1)

        facts = [base / 4, (base - rival) / 4, base.exp(), size, said.std(-1) / 2]
        views = [(said - base[..., None]) / 2, torch.stack(facts, -1)]
        h = self.each(torch.cat([*views, shared(trust.facts / 3), shared(3 * trust.share)], -1))
        mean = h.mean(2, keepdim=True).expand_as(h)
        likely = (base.exp()[..., None] * h).sum(2, keepdim=True).expand_as(h)
        correction: Tensor = self.out(self.among(torch.cat([h, mean, likely], -1))).squeeze(-1)
        return BOUND * torch.tanh(correction / BOUND)


class Combiner(nn.Module):
    """Gate and reader.

    Args:
        experts: E.
    """

    def __init__(self, experts: int) -> None:
        super().__init__()
        self.gate = Gate(experts)
        self.reader = Reader(experts)
        self.trust = nn.Parameter(torch.tensor(1.0))

    def judge(self, exam: Examination) -> Trust:
        """Decide whom to trust."""
        share, sharpness = self.gate(exam)
        all_of_it = Trust(share, sharpness, torch.ones_like(share[:, 0]), exam.facts, exam.demos)
        base = self._loss(self.base(exam.left_out, all_of_it)[0], exam)
        read = self._loss(self.answer(exam.left_out, all_of_it), exam)
        return all_of_it._replace(reader=torch.sigmoid(self.trust + STRICTNESS * (base - read)))

    def answer(self, scores: Tensor, trust: Trust) -> Tensor:
        """Logits [B, Q, N] from the scores of the experts, [B, E, Q, N]."""
        base, said = self.base(scores, trust)
        candidates = base.topk(min(CANDIDATES, base.shape[-1]), -1).indices
        strongest = base.topk(min(2, base.shape[-1]), -1).values
        own = base.gather(-1, candidates)
        rival = torch.where(own >= strongest[..., :1], strongest[..., -1:], strongest[..., :1])
        size = class_sizes(trust.demos)[:, None].expand_as(base).gather(-1, candidates)
        said = said.gather(-1, candidates[:, None].expand(-1, said.shape[1], -1, -1)).permute(0, 2, 3, 1)
        change = self.reader(
            said.clamp(min=LOWEST), own.clamp(min=LOWEST), rival.clamp(min=LOWEST), size, trust
        )
        return base.scatter_add(-1, candidates, trust.reader[:, None, None] * change)

    def base(self, scores: Tensor, trust: Trust) -> tuple[Tensor, Tensor]:
        """Log-probabilities [B, Q, N] without the reader, and those of each expert, [B, E, Q, N]."""
        sharp = trust.sharpness[:, :, None, None] * scores
        said = sharp.masked_fill(trust.demos[:, None, None] == 0, UNSEEN).log_softmax(-1)
        base = (trust.share[:, :, None, None] * said).sum(1)
        return base.log_softmax(-1), said

    def _loss(self, logits: Tensor, exam: Examination) -> Tensor:
        """Mean cross-entropy over the prototypes that can be asked about, [B]."""
        loss = F.cross_entropy(logits.flatten(0, 1), exam.label.flatten(), reduction="none")
        return (loss.view_as(exam.weight) * exam.weight).sum(1)


def class_sizes(demos: Tensor) -> Tensor:
    """Log share of each class in the demos [B, N], in units of the average."""
    part = demos / demos.sum(1, keepdim=True).clamp(min=1)
    return (part * (demos > 0).sum(1, keepdim=True)).clamp(min=0.05).log()
