"""Shapes of classes: what a long stream tells of a class beyond its mean, and a second opinion made of it.

Fifteen demos say where a class lies, hundreds also in which directions it is wide. What merging prototypes
forgets is therefore kept twice: in the scatter of all classes, exactly, and of each class in a few
directions, in half precision. Once a stream is longer than any of meta-training, every class has a Gaussian
of its own: the prototypes and these directions, drawn towards the scatter of all classes by a
prior. It judges the strongest candidates of a query anew, unless that makes the examination clearly worse:
the single demos that are kept, each judged as if it had not been learned.

Shape legend: T = mergers, D = dimensions, R = directions, N = classes, Q = queries, P = examined demos,
C = candidates.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from autocl.ops.linear import product_by_rows
from autocl.ops.threads import in_threads
from autocl.readouts.examination import LONGEST, Examination
from autocl.readouts.memory import FREE, Mergers
from autocl.readouts.moments import Moments, compiles

ROUND = 0.01
"""Share of a round scatter in the common one."""
PRIOR = 4000.0
"""Demos that the common scatter is worth when a class gets a shape."""
CANDIDATES = 20
"""Classes of a query that are judged anew; the others keep their distance to the weakest of these."""
FIRST, SECOND = 0.1, 0.15
"""Factors on the first answer and on the log-likelihood. All of these were chosen on validation sets."""
DOUBT = 1.0
"""The second look is dropped if it makes the examination worse by so many standard errors."""


def widened(directions: Tensor, merged: Tensor, mergers: Mergers) -> Tensor:
    """The directions [B, N, R, D] of all classes after some mergers, in their order.

    The rows of a class are principal directions of what its mergers forgot, each as long as the deviation
    along it; when a merger adds one to R of them, the weakest direction is dropped.

    Args:
        directions: before.
        merged: [B, N], mergers of each class before.
        mergers: what has been forgotten since.
    """
    out = directions.clone()
    if not out.shape[2]:
        return out
    streams = zip(*(t.detach().cpu().numpy() for t in mergers), strict=True)
    for b, (label, row) in enumerate(streams):
        rows, known = out[b].float().cpu().numpy(), merged[b].double().cpu().numpy()
        found = np.flatnonzero(label != FREE)
        # One merger of each class at a time: as many steps as the class with most has mergers.
        order = found[np.argsort(label[found], kind="stable")]
        first = np.searchsorted(label[order], label[order])
        turn = np.arange(len(order)) - first
        for step in range(turn.max() + 1 if len(turn) else 0):
            now = order[turn == step]
            classes = label[now]
            rows[classes] = _with_one_more(rows[classes], row[now], known[classes])
            known[classes] += 1
        out[b] = torch.from_numpy(rows).to(out)
    return out


def _with_one_more(
    rows: npt.NDArray[np.float32], new: npt.NDArray[np.floating], known: npt.NDArray[np.float64]
) -> npt.NDArray[np.float32]:
    """Rows [n, R, D] of n classes that had `known` [n] mergers, after one more of each, new [n, D]."""
    k = known[:, None]
    all_rows = np.concatenate([rows * np.sqrt(k / (k + 1))[..., None], (new / np.sqrt(k + 1))[:, None]], 1)
    _, turned = np.linalg.eigh(all_rows @ all_rows.transpose(0, 2, 1))
    strongest = turned[:, :, 1:].transpose(0, 2, 1) @ all_rows
    half: npt.NDArray[np.float16] = strongest.astype(np.float16)
    return half.astype(np.float32)


@dataclass(frozen=True, eq=False)
class Shapes:
    """The distribution of each class of one stream, in coordinates in which the common scatter is round."""

    whiten: Tensor
    """[D, D]."""
    centre: Tensor
    """[N, D], class means."""
    basis: Tensor
    """[N, R, D], unit directions in which a class is wider than on average; zero where it has fewer."""
    width: Tensor
    """[N, R], variance along them."""
    rest: Tensor
    """[N], variance along all others."""
    seen: Tensor
    """[N], whether a class has demos."""

    @staticmethod
    def of(
        b: int, moments: Moments, directions: Tensor, exam: Examination, answers: Tensor
    ) -> "Shapes | None":
        """Shapes of one stream and how much they count; None if that is nothing.

        Args:
            b: which of the batch.
            moments: of the batch.
            directions: [B, N, R, D].
            exam: of the experts.
            answers: [B, P, N], what the combiner says of the examined demos.
        """
        demos = float(moments.memory.demos[b])
        if demos <= LONGEST or moments.second is None:
            return None
        D = moments.mean.shape[-1]
        around = moments.around(moments.centre, moments.size)
        assert around is not None
        common = around[b] / demos
        level = common.diagonal().mean()
        eye = torch.eye(D, dtype=common.dtype, device=common.device)
        root = torch.linalg.cholesky((1 - ROUND) * common + ROUND * level * eye)
        whiten = torch.linalg.solve_triangular(root, eye, upper=False).T.contiguous()
        known = _Known.of(b, moments, directions[b].to(common.dtype), whiten)
        shapes = known.shapes(whiten)
        label, weight = exam.label[b], exam.weight[b].to(common.dtype)
        said = known.left_out(shapes, label, weight)

        first = answers[b].to(said.dtype)
        candidates = _strongest(first)
        second = _mixed(first, candidates, said.gather(1, candidates))
        asked = weight > 0
        loss_first, loss = (
            F.cross_entropy(t[asked], label[asked], reduction="none") for t in (first, second)
        )
        worse = loss - loss_first
        if not bool(worse.mean() <= DOUBT * worse.std() / len(worse) ** 0.5):  # nor if nobody was asked
            return None
        in_float = {name: t.float() for name, t in vars(shapes).items() if name != "seen"}
        return Shapes(**in_float, seen=shapes.seen)

    def judge(self, x: Tensor, logits: Tensor) -> Tensor:
        """Logits [Q, N] after a second look at the strongest candidates of queries x [Q, D]."""
        candidates = _strongest(logits)
        white = product_by_rows(x.to(self.whiten.dtype), self.whiten)
        said = self.likelihood(white, candidates).to(logits.dtype)
        return torch.where(self.seen, _mixed(logits, candidates, said), logits)

    def likelihood(self, white: Tensor, candidates: Tensor) -> Tensor:
        """Log-likelihoods [Q, C] of whitened vectors [Q, D] in classes [Q, C], up to a constant."""
        if not compiles(white[None]):
            away = white[:, None] - self.centre[candidates]
            of = (t[candidates] for t in (self.basis, self.width, self.rest))
            return _gaussian(away[:, :, None], *of)[..., 0]
        # Imported here because importing numba takes longer than importing all of autocl.
        from autocl.readouts import kernel

        said = torch.empty(candidates.shape, dtype=white.dtype)
        parts = (self.centre, self.basis, *_factors(self.basis, self.width, self.rest))
        constant = tuple(t.contiguous().numpy() for t in parts)
        asked = (t.contiguous().numpy() for t in (white, candidates, said))
        in_threads(partial(kernel.likelihoods, constant), 256, *asked)
        return said


@dataclass(frozen=True)
class _Known:
    """What is known of the classes of a stream, in whitened coordinates."""

    centre: Tensor
    """[N, D]."""
    rows: list[Tensor]
    """Of each class [K, D]: their outer products sum to its scatter."""
    places: list[Tensor]
    """Of each class, where its prototypes are; they made the last rows."""
    size: Tensor
    """[N], demos."""
    prototype: Tensor
    """[M, D]."""
    number: int
    """R."""

    @staticmethod
    def of(b: int, moments: Moments, directions: Tensor, whiten: Tensor) -> "_Known":
        memory, size, centre = moments.memory, moments.size[b], moments.centre[b]
        prototype, label, member = memory.prototype[b], memory.label[b], moments.target[b]
        apart = (prototype - member @ centre) * memory.weight[b].sqrt()[:, None]
        places = [(label == c).nonzero()[:, 0] for c in range(len(size))]
        merged = size - member.sum(0)
        of_mergers = directions * merged.clamp(min=0).sqrt()[:, None, None]
        N, R, D = directions.shape
        wide = of_mergers.reshape(-1, D) @ whiten
        rows = [torch.cat([wide[c * R : (c + 1) * R], apart[places[c]] @ whiten]) for c in range(N)]
        return _Known(centre @ whiten, rows, places, size, prototype @ whiten, R)

    def shapes(self, whiten: Tensor) -> Shapes:
        """Of all classes."""
        found = [_shape(rows, n, self.number) for rows, n in zip(self.rows, self.size, strict=True)]
        basis, width, rest = (torch.stack(parts) for parts in zip(*found, strict=True))
        return Shapes(whiten, self.centre, basis, width, rest, self.size > 0)

    def left_out(self, shapes: Shapes, label: Tensor, weight: Tensor) -> Tensor:
        """Log-likelihoods [P, N] of the first P prototypes where they have a weight [P] in the examination.

        Each is taken out of its class, whose label [P] it has, and of the common scatter.
        """
        said = self.prototype.new_zeros(len(label), len(self.size))
        demos = float(self.size.sum())
        for i in (weight > 0).nonzero()[:, 0].tolist():
            x, c = self.prototype[i], int(label[i])
            n = self.size[c]
            own = x - self.centre[c]
            away = x - self.centre
            away[c] = own * n / (n - 1)
            # Without this demo the common scatter is narrower along its deviation, which thus counts more.
            share = (n / (n - 1)) / demos
            length = own @ own
            longer = (1 / (1 - (share * length).clamp(max=0.9))).sqrt() - 1
            away = away + longer * torch.outer(away @ own, own) / length.clamp(min=1e-9)
            said[i] = _gaussian(away[:, None], shapes.basis, shapes.width, shapes.rest)[:, 0]
            mine = len(self.rows[c]) - len(self.places[c]) + int((self.places[c] == i).nonzero())
            others = torch.cat([self.rows[c][:mine], self.rows[c][mine + 1 :]])
            said[i, c] = _gaussian(away[c : c + 1], *_shape(others, n - 1, self.number))[0]
        return said


def _shape(rows: Tensor, n: Tensor, number: int) -> tuple[Tensor, Tensor, Tensor]:
    """Basis [R, D], width [R] and rest of a class of n demos whose scatter is the sum of rowsᵀ rows.

    The common scatter, which is round here, has the weight of `PRIOR` demos; what the rows do not tell of
    a class is as on average.
    """
    D = rows.shape[-1]
    values, turned = torch.linalg.eigh(rows @ rows.mT)
    values, turned = values.flip(0)[:number].clamp(min=0), turned.flip(1)[:, :number]
    if len(values) < number:
        values = F.pad(values, (0, number - len(values)))
        turned = F.pad(turned, (0, number - turned.shape[1]))
    trust, variance = n / (PRIOR + n), values / n.clamp(min=1)
    rest = 1 - trust + trust * (D - variance.sum()).clamp(min=0) / max(D - number, 1)
    wider = variance > rest
    basis = (turned.mT @ rows) / values.clamp(min=1e-12).sqrt()[:, None] * wider[:, None]
    return basis, torch.where(wider, 1 - trust + trust * variance, rest), rest


def _factors(basis: Tensor, width: Tensor, rest: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Of classes: what a square along a direction counts less [..., R], 1 / rest and log-volume [...]."""
    volume = width.log().sum(-1) + (basis.shape[-1] - basis.shape[-2]) * rest.log()
    return 1 / rest[..., None] - 1 / width, 1 / rest, volume


def _gaussian(away: Tensor, basis: Tensor, width: Tensor, rest: Tensor) -> Tensor:
    """Log-densities [..., n] of deviations [..., n, D], up to a constant."""
    less, inverse, volume = _factors(basis, width, rest)
    along = (away @ basis.mT).square()
    square = away.square().sum(-1) * inverse[..., None] - (along * less[..., None, :]).sum(-1)
    return -0.5 * (square + volume[..., None])


def _strongest(logits: Tensor) -> Tensor:
    """The candidates [Q, C] of logits [Q, N]."""
    return logits.topk(min(CANDIDATES, logits.shape[1]), 1).indices


def _mixed(logits: Tensor, candidates: Tensor, said: Tensor) -> Tensor:
    """Logits [Q, N] whose candidates are judged by both.

    Args:
        logits: first answer.
        candidates: [Q, C], the strongest of it.
        said: [Q, C], their log-likelihoods.
    """
    first = logits.gather(1, candidates)
    both = FIRST * first + SECOND * said
    moved = both.amin(1, keepdim=True) - first.amin(1, keepdim=True)
    return (logits + moved).scatter(1, candidates, both)
