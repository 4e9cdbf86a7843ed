"""Combiner: the meta-learned part of the universal read-out. It decides whom to trust, and reads the answers.

The gate sees how the experts did in their examination and gives each a share and a sharpness; the weighted
sum of log-probabilities is the base answer. The reader sees what all experts say of the strongest candidates
of a query and corrects the base answer by a bounded amount. It is examined like the experts: as far as its
corrections do not help the prototypes that were left out, they do not count.

The body (`body.py`) writes itself fast weights from what both got wrong in the examination. Those of one half
of the prototypes are examined on the other, and count as far as they help there.

Nothing here depends on the number, names or order of classes, nor on the length of features.

Shape legend: B = streams, E = experts, S = sharpnesses, M = prototypes, Q = queries, N = classes,
C = candidates, H = hidden units.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autocl.readouts.body import Body, Evidence, halves
from autocl.readouts.examination import FACTS, SHARPNESS, UNSEEN, Examination

CANDIDATES = 6
"""Classes of a query that the reader looks at; the others keep their base score."""
LOWEST = -12.0
"""Log-probabilities are cut here before they are read."""


BOUND = 3.0
"""The reader changes no log-probability by more."""
PASSING = 3.0
"""The body counts in full where the examination costs less than 1 - 1 / PASSING of guessing, and not at all
where it is guessing: of answers that nobody knew only noise is learned. Chosen on validation sets."""
CAUTION = 0.5
"""What the body counts outside meta-training. In full it helps a little more in the mean, and costs up to 0.7
points where demos are few and unlike each other. Chosen on validation sets, so that it costs none 0.5."""
STRICTNESS = 20.0
"""Rate at which trust in the reader falls with the loss that it causes in its examination."""


class Trust(NamedTuple):
    """Result of an examination; with it any number of queries can be answered."""

    share: Tensor
    """[B, E], sums to one."""
    sharpness: Tensor
    """[B, E]."""
    facts: Tensor
    """[B, FACTS]."""
    demos: Tensor
    """[B, N]."""
    reader: Tensor
    """[B], from 0 to 1."""
    last: Tensor
    """[B, H], the body's last layer of the reader, as far as it is trusted."""
    bias: Tensor
    """[B, N], the body's bias of each class, as far as it is trusted."""


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
    """Hidden units [B, Q, C, H] for the candidates, from what each expert says of them; `out` corrects them.

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
        hidden: Tensor = self.among(torch.cat([h, mean, likely], -1))
        return hidden


class Confidence(nn.Module):
    """Map from the loss without and with a correction, and the shape of the stream, to trust from 0 to 1."""

    def __init__(self, hidden: int = 16) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(FACTS + 2, hidden), nn.GELU(), nn.Linear(hidden, 1))
        last = self.net[-1]
        assert isinstance(last, nn.Linear)
        nn.init.zeros_(last.weight)
        nn.init.ones_(last.bias)

    def forward(self, before: Tensor, after: Tensor, facts: Tensor) -> Tensor:
        """Trust [B] from losses [B] in the examination and facts [B, FACTS]."""
        gain = before - after
        seen = torch.cat([facts / 3, before[:, None], gain[:, None]], -1)
        logit: Tensor = self.net(seen)[:, 0] + STRICTNESS * gain
        return torch.sigmoid(logit)


class Combiner(nn.Module):
    """Gate, reader and body.

    Args:
        experts: E.
    """

    def __init__(self, experts: int) -> None:
        super().__init__()
        self.gate = Gate(experts)
        self.reader = Reader(experts)
        self.body = Body()
        self.in_reader, self.in_body = Confidence(), Confidence()

    def judge(self, exam: Examination) -> Trust:
        """Decide whom to trust, and let the body learn from the examination."""
        share, sharpness = self.gate(exam)
        one, demos = torch.ones_like(share[:, 0]), exam.demos
        nothing = self.reader.out.weight.new_zeros(len(share), self.reader.out.in_features)
        trust = Trust(share, sharpness, exam.facts, demos, one, nothing, torch.zeros_like(demos))
        base, candidates, hidden = self._read(exam.left_out, trust)
        before = self._loss(base, exam)

        def corrected(trust: Trust) -> Tensor:
            return base.scatter_add(-1, candidates, self._corrections(hidden, candidates, trust))

        after = self._loss(corrected(trust), exam)
        trust = trust._replace(reader=self.in_reader(before, after, exam.facts))
        logits = corrected(trust)
        right = (candidates == exam.label[..., None]).to(base.dtype)
        error = right - logits.softmax(-1).gather(-1, candidates)
        both, fair, balance = halves(exam)
        # A class whose only demo was left out cannot be right: nothing may be learned from that.
        fair = fair[:, None].expand(-1, candidates.shape[1], -1).gather(-1, candidates)
        evidence = [
            self.body.evidence(hidden * counts[..., None], error * counts, candidates, demos.shape[1])
            for half in both
            for counts in [(half * balance)[..., None] * fair]
        ]
        across = torch.zeros_like(before)  # the loss of each half with fast weights of the other
        for half, other in zip(both, reversed(evidence), strict=True):
            last, bias = self.body(other)
            answers = corrected(trust._replace(last=last, bias=bias))
            across = across + self._loss(answers, exam._replace(weight=exam.weight * half))
        loss = self._loss(logits, exam)
        labels = (demos > 0).sum(1).clamp(min=2).to(loss.dtype)
        passed = (PASSING * (1 - loss / labels.log())).clamp(0, 1)
        count = (passed * self.in_body(loss, across, exam.facts))[:, None]
        count = count if self.training else CAUTION * count
        last, bias = self.body(Evidence(*(a + b for a, b in zip(*evidence, strict=True))))
        return trust._replace(last=count * last, bias=count * bias)

    def answer(self, scores: Tensor, trust: Trust) -> Tensor:
        """Logits [B, Q, N] from the scores of the experts, [B, E, Q, N]."""
        base, candidates, hidden = self._read(scores, trust)
        return base.scatter_add(-1, candidates, self._corrections(hidden, candidates, trust))

    def _read(self, scores: Tensor, trust: Trust) -> tuple[Tensor, Tensor, Tensor]:
        """The base answer [B, Q, N], its strongest candidates [B, Q, C], what the reader makes of them."""
        base, said = self.base(scores, trust)
        candidates = base.topk(min(CANDIDATES, base.shape[-1]), -1).indices
        strongest = base.topk(min(2, base.shape[-1]), -1).values
        own = base.gather(-1, candidates)
        rival = torch.where(own >= strongest[..., :1], strongest[..., -1:], strongest[..., :1])
        size = class_sizes(trust.demos)[:, None].expand_as(base).gather(-1, candidates)
        said = said.gather(-1, candidates[:, None].expand(-1, said.shape[1], -1, -1)).permute(0, 2, 3, 1)
        hidden = self.reader(
            said.clamp(min=LOWEST), own.clamp(min=LOWEST), rival.clamp(min=LOWEST), size, trust
        )
        return base, candidates, hidden

    def _corrections(self, hidden: Tensor, candidates: Tensor, trust: Trust) -> Tensor:
        """What reader and body add to the candidates, [B, Q, C]; each by no more than `BOUND`."""
        read: Tensor = self.reader.out(hidden)[..., 0]
        fast = (hidden @ trust.last[:, None, :, None])[..., 0]
        fast = fast + trust.bias[:, None].expand(-1, candidates.shape[1], -1).gather(-1, candidates)
        return trust.reader[:, None, None] * _bounded(read) + _bounded(fast)

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


def _bounded(change: Tensor) -> Tensor:
    return BOUND * torch.tanh(change / BOUND)


def class_sizes(demos: Tensor) -> Tensor:
    """Log share of each class in the demos [B, N], in units of the average."""
    part = demos / demos.sum(1, keepdim=True).clamp(min=1)
    return (part * (demos > 0).sum(1, keepdim=True)).clamp(min=0.05).log()
