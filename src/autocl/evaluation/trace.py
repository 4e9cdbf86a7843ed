"""A passage between boundaries: accuracies every few demos (Trace), weights after every demo (WeightFilm).

The film is the data of the paper's Figures 3-5.

Shape legend of a trace: R = runs side by side, M = tasks, P = moments at which all tasks are asked. Of a
film: T = demos of the stream, L = SRWM layers, H = heads, R = rows 3D + 4, D = head size.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from autocl.baselines.embedding import Embedding, measuring
from autocl.baselines.incontext import InContext
from autocl.data.stream import Stream, side_by_side
from autocl.errors import InputError
from autocl.layers.srwm import BLOCKS, SRWMLayer
from autocl.learner import FastWeightLearner, Learner
from autocl.matrix import learning_acceleration, stability_gap
from autocl.passage import passage


@dataclass(frozen=True, kw_only=True, eq=False)
class Trace:
    """Accuracy on every task at moments of a stream."""

    accuracy: Tensor
    """float64 [R, P, M] in [0, 1]."""
    demos: Tensor
    """int64 [P]: demos seen before each moment, from 0."""
    learned: Tensor
    """int64 [M]: the moment that is the boundary of each task."""
    few: Tensor
    """int64 [M]: the first moment within each task."""
    tasks: tuple[str, ...]

    def stability_gap(self) -> Tensor:
        """Fall of learned tasks between boundaries, [R]."""
        return stability_gap(self.accuracy, self.learned)

    def learning_acceleration(self) -> Tensor:
        """Accuracy after the first few demos of later tasks against the first task, [R]."""
        task = torch.arange(len(self.tasks))
        return learning_acceleration(self.accuracy[:, self.few, task])


def trace(method: InContext, streams: Sequence[Stream], *, every: int, queries: int | None = None) -> Trace:
    """Take a learner through streams and ask about all tasks every so many demos.

    Args:
        method: a learner; only learners can stop in the middle of a task without being disturbed.
        streams: one for each run.
        every: demos between two moments; the end of a task is always one.
        queries: most of each task.
    """
    stream = side_by_side(streams)
    moments = list(passage(method, stream, every=every, queries=queries, forward=True))
    task_of = [m.task for m in moments]
    return Trace(
        accuracy=torch.stack([m.accuracy for m in moments], dim=1),
        demos=torch.tensor([m.demos for m in moments]),
        learned=torch.tensor([i for i, m in enumerate(moments) if m.at_boundary]),
        few=torch.tensor([task_of.index(task) for task in range(len(stream.tasks))]),
        tasks=tuple(t.name for t in stream.tasks),
    )


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

    def effective_rank(self) -> Tensor:
        """exp(entropy of the normalised singular values) of y-blocks, [T + 1, L, H] (Roy & Vetterli 2007)."""
        values = torch.linalg.svdvals(self.block("y").double())
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
        frames.append(torch.stack([method.state.tensors[f"{i}.W"][0] for i in layers]))
        if (t := moment.demos) < len(y):
            with measuring(fast):
                rates.append(torch.stack(list(fast.rates(f[t], int(y[t]), method.state).values())))
    ends = torch.tensor([t.demos.shape[1] for t in stream.tasks]).cumsum(0)
    return WeightFilm(
        weights=torch.stack(frames),
        rates=torch.stack(rates),
        labels=y,
        boundaries=tuple(ends.tolist()),
        tasks=tuple(t.name for t in stream.tasks),
    )
