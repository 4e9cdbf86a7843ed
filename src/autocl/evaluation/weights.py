"""Figures 3-5: how the self-modifying weights of a learner change while it sees a stream.

Shape legend: T = demos of the stream, L = SRWM layers, H = heads, R = rows 3D + 4, D = head size.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from autocl.baselines.embedding import Embedding, measuring
from autocl.baselines.incontext import InContext
from autocl.data.stream import Stream
from autocl.errors import InputError
from autocl.layers.srwm import SRWMLayer
from autocl.learner import FastWeightLearner, Learner
from autocl.passage import passage

BLOCKS = ("y", "q", "k", "β")
"""Row blocks of the matrix: output, query, key, learning rates."""


@dataclass(frozen=True, kw_only=True, eq=False)
class WeightFilm:
    """Every matrix after every demo."""

    weights: Tensor
    """float32 [T + 1, L, H, R, D]; the first is the initial state."""
    rates: Tensor
    """float32 [T, L, H, 4]: the learning rates σ(β) of the blocks at each demo."""
    labels: Tensor
    """int64 [T]."""
    boundaries: tuple[int, ...]
    """Demos seen at the end of each task."""
    tasks: tuple[str, ...]

    @property
    def head_size(self) -> int:
        """D."""
        return self.weights.shape[-1]

    def block(self, name: str) -> Tensor:
        """The rows of one block, [T + 1, L, H, rows, D]."""
        if name not in BLOCKS:
            raise InputError(f"there is no block {name!r} in the matrix: choose one of {', '.join(BLOCKS)}")
        at, D = BLOCKS.index(name), self.head_size
        return self.weights[..., at * D : (at + 1) * D if at < 3 else None, :]

    def change(self) -> Tensor:
        """Frobenius norm of each block's step at each demo, [T, L, H, 4]."""
        steps = self.weights.diff(dim=0)
        D = self.head_size
        cuts = [D, D, D, steps.shape[-2] - 3 * D]
        return torch.stack([part.flatten(-2).norm(dim=-1) for part in torch.split(steps, cuts, dim=-2)], -1)

    def effective_rank(self, block: str = "y") -> Tensor:
        """exp(entropy of the normalised singular values) of a block, [T + 1, L, H] (Roy & Vetterli 2007)."""
        values = torch.linalg.svdvals(self.block(block).double())
        share = values / values.sum(-1, keepdim=True).clamp_min(torch.finfo(values.dtype).tiny)
        return torch.exp(-torch.special.xlogy(share, share).sum(-1))


def record_film(learner: Learner, stream: Stream, *, features: Embedding | None = None) -> WeightFilm:
    """Show a stream demo by demo and keep every matrix.

    Args:
        learner: with at least one SRWM layer.
        stream: with no more outputs than the learner has.
        features: of images that were encoded before.
    """
    fast = learner if isinstance(learner, FastWeightLearner) else None
    layers = [i for i, layer in enumerate(fast.layers) if isinstance(layer, SRWMLayer)] if fast else []
    if fast is None or not layers:
        raise InputError(
            "this learner has no self-modifying matrices to show: the film needs one with mixer 'srwm'"
        )
    method = InContext(learner, features)
    f = torch.cat([method.features.take(t.sets[0], t.demos[0]) for t in stream.tasks]).to(fast.device)
    y = torch.cat([t.demo_labels[0] for t in stream.tasks])
    frames, rates = [], []
    for moment in passage(method, stream, every=1, ask=False):
        frames.append(_matrices(method.state.tensors, layers))
        if (t := moment.demos) < len(y):
            with measuring(fast):
                rates.append(torch.stack(list(fast.rates(f[t], int(y[t]), method.state).values())))
    ends = torch.tensor([t.demos.shape[1] for t in stream.tasks]).cumsum(0)
    return WeightFilm(
        weights=torch.stack(frames),
        rates=torch.stack(rates),
        labels=torch.cat([t.demo_labels[0] for t in stream.tasks]),
        boundaries=tuple(ends.tolist()),
        tasks=tuple(t.name for t in stream.tasks),
    )


def _matrices(tensors: Any, layers: list[int]) -> Tensor:
    """[L, H, R, D]."""
    return torch.stack([tensors[f"{i}.W"][0] for i in layers])
