"""FineTuning: an MLP that is trained by gradient descent on one task after another.

Everything hand-crafted is a variation of this loop. As it stands it is plain fine-tuning; the settings are
those of Hsu et al. 2018, "Re-evaluating continual learning scenarios". Last come methods that keep images of
earlier tasks: joint training, the upper bound, and naive rehearsal.

Shape legend: R = runs, B = batch, Q = queries, N = outputs, P = parameters.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor
from torch.nn import functional as F

from autocl.baselines.base import (
    Cost,
    Diet,
    Examples,
    Method,
    StreamInfo,
    TaskExamples,
    examples_of,
    gather,
    register,
    rows_for,
)
from autocl.baselines.mlp import BatchedMLP
from autocl.config import Count, Positive, check
from autocl.data.imageset import LabelledSet
from autocl.data.stream import Task
from autocl.data.stream_config import Scenario
from autocl.errors import InputError


class Schedule(NamedTuple):
    """Passes over a task, and examples in a step."""

    epochs: int
    batch: int


FULL = Schedule(4, 128)
"""Schedule of all baselines on the full diet (Hsu et al. 2018)."""
DEMOS: dict[str, dict[Scenario, Schedule]] = {
    "sgd": {"domain": Schedule(4, 8), "class": Schedule(100, 8)},
    "adam": {"domain": Schedule(4, 128), "class": Schedule(4, 128)},
    "adagrad": {"domain": Schedule(4, 128), "class": Schedule(20, 128)},
    "l2": {"domain": Schedule(4, 128), "class": Schedule(4, 8)},
    "ewc": {"domain": Schedule(4, 128), "class": Schedule(4, 128)},
    "online-ewc": {"domain": Schedule(4, 128), "class": Schedule(4, 128)},
    "si": {"domain": Schedule(4, 8), "class": Schedule(4, 128)},
    "mas": {"domain": Schedule(20, 8), "class": Schedule(4, 128)},
    "lwf": {"domain": Schedule(4, 128), "class": Schedule(20, 8)},
    "rehearsal": {"domain": Schedule(20, 8), "class": Schedule(20, 8)},
    "joint": {"domain": Schedule(20, 8), "class": Schedule(20, 8)},
}
"""On the demos diet (15 a class) nothing was published: searched on the validation part of Split-MNIST, over
epochs 4, 20 (adam and sgd also 100) × batch 128, 8, with three runs, by the average accuracy after the last
of five tasks. README.md has the numbers."""


Optimizer = Literal["sgd", "adam", "adagrad"]
QUERY_BATCH = 1000
"""Queries answered at a time; bounds memory at R · 1000 · D floats."""


@dataclass(kw_only=True, eq=False)
class FineTuning(Method):
    """Fine-tuning. Subclasses change what is trained on, the loss, the gradient, or what follows a task."""

    framing = "padded"
    side_by_side = 1

    diet: Diet = "full"
    optimizer: Optimizer = "adam"
    lr: Positive = 1e-3
    epochs: Count | None = None
    """Passes over a task; None: by the method's schedule for its diet and the scenario."""
    batch: Count | None = None
    """B, the last batch of an epoch may be smaller; None: by the schedule."""
    hidden: tuple[int, ...] = (400, 400)

    def __post_init__(self) -> None:
        check(self)

    def schedule(self, scenario: Scenario) -> Schedule:
        """Epochs and batch as they will be used."""
        searched = self.diet == "demos" and self.name in DEMOS
        usual = DEMOS[self.name][scenario] if searched else FULL
        return Schedule(self.epochs or usual.epochs, self.batch or usual.batch)

    def settings(self) -> dict[str, Any]:
        """Settings, with the schedules that follow from them."""
        schedules = {s: list(self.schedule(s)) for s in get_args(Scenario)}
        return {**super().settings(), "epochs and batch": schedules}

    def begin(self, info: StreamInfo) -> None:
        """Draw the networks of all runs and forget the rest."""
        self._info = info
        # bool [N], outputs that may be meant. Domain scenario: all; class scenario: classes seen so far.
        self.seen = torch.full((info.n_outputs,), info.scenario == "domain")
        self._examples = self._steps = 0
        self.kept: list[TaskExamples] = []
        """Images that are carried to the next task."""
        self._generators = [torch.Generator().manual_seed(seed) for seed in info.seeds]
        self._start_networks()

    def learn(self, task: Task) -> None:
        """Train on the task."""
        share = examples_of(task, self.diet)
        if len(share.index) != self._runs:
            raise InputError(f"got tasks of {len(share.index)} runs, begin was told of {self._runs}")
        self.seen = self.seen.clone()
        self.seen[share.labels.flatten()] = True
        examples = gather(self._material(share))
        self._before(examples)
        self._train(examples)
        self._after(share, examples)

    def predict(self, images: LabelledSet, index: Tensor) -> Tensor:
        """Logits [R, Q, N]."""
        rows = rows_for(index, self._runs)
        answers = []
        for start in range(0, rows.shape[1], QUERY_BATCH):
            part = rows[:, start : start + QUERY_BATCH]
            # Queries common to all runs are looked up once and repeated without a copy.
            x = images.take(part if index.dim() == 2 else part[:1]).flatten(2).expand(self._runs, -1, -1)
            answers.append(self._logits(self.stack.forward(x)[-1]))
        return torch.cat(answers, dim=1)

    def cost(self) -> Cost:
        """Cost of a run since `begin`."""
        runs = self._runs
        tensors = sum(t.numel() * t.element_size() for t in self._state()) // runs
        images = sum(share.nbytes for share in self.kept)
        return Cost(examples=self._examples, gradient_steps=self._steps, state_bytes=tensors + images)

    def _material(self, share: TaskExamples) -> list[TaskExamples]:
        """Examples to train on, given those of the new task."""
        return [share]

    def _before(self, examples: Examples) -> None:
        """Called before the first step of a task."""

    def _loss(self, x: Tensor, logits: Tensor, labels: Tensor) -> Tensor:
        """Loss of each run, [R], on one batch x [R, B, D]; differentiated by the logits."""
        flat = F.cross_entropy(self._logits(logits).flatten(0, 1), labels.flatten(), reduction="none")
        return flat.view_as(labels).mean(1)

    def _adjust(self, gradient: Tensor) -> None:
        """Change the gradient [R, P] of the loss in place, before the optimiser uses it."""

    def _step(self, gradient: Tensor) -> None:
        """Let the optimiser use the gradient [R, P] of the loss."""
        self._adjust(gradient)
        self._parameter.grad = gradient
        self._descent.step()

    def _after(self, share: TaskExamples, examples: Examples) -> None:
        """Called at the boundary."""

    def _state(self) -> list[Tensor]:
        """All tensors that are carried to the next task, with a leading run axis."""
        kept = [
            t for t in self._descent.state.get(self._parameter, {}).values() if t.shape[:1] == (self._runs,)
        ]
        return [self.stack.flat, *kept]

    @property
    def _runs(self) -> int:
        return len(self.info.seeds)

    def _start_networks(self) -> None:
        """Fresh networks and a fresh optimiser."""
        sizes = (math.prod(self.info.input_shape), *self.hidden, self.info.n_outputs)
        self.stack = BatchedMLP(sizes, self.info.seeds)
        # One flat parameter and the fused step: an unfused Adam would cost as much as the matrix products.
        self._parameter = torch.nn.Parameter(self.stack.flat)
        self.stack.flat = self._parameter.data
        kind = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adagrad": torch.optim.Adagrad}
        self._descent: torch.optim.Optimizer = kind[self.optimizer]([self._parameter], lr=self.lr, fused=True)

    def _train(self, examples: Examples) -> None:
        n = examples.rows.shape[1]
        epochs, batch = self.schedule(self.info.scenario)
        gradient = torch.empty_like(self.stack.flat)
        for _ in range(epochs):
            order = torch.stack([torch.randperm(n, generator=g) for g in self._generators])
            for positions in torch.split(order, batch, dim=1):
                x, labels = examples.take(positions)
                activity = self.stack.forward(x)
                delta = self._delta(x, activity[-1], labels)
                self._step(self.stack.backward(activity, delta, out=gradient))
                self._steps += 1
            self._examples += n

    def _delta(self, x: Tensor, logits: Tensor, labels: Tensor) -> Tensor:
        """Derivative of every run's loss by its logits, [R, B, N]."""
        leaf = logits.detach().requires_grad_()
        with torch.enable_grad():
            (delta,) = torch.autograd.grad(self._loss(x, leaf, labels).sum(), leaf)
        return delta

    def _logits(self, raw: Tensor) -> Tensor:
        """Outputs that cannot be meant take no part in the softmax."""
        return raw.masked_fill(~self.seen, -torch.inf)


@register
class SGD(FineTuning):
    """Stochastic gradient descent without momentum."""

    name = "sgd"
    optimizer: Optimizer = "sgd"
    lr: Positive = 0.01


@register
class Adam(FineTuning):
    """Adam, its moments kept from task to task."""

    name = "adam"


@register
class Adagrad(FineTuning):
    """Adagrad, whose steps shrink over the whole stream."""

    name = "adagrad"
    optimizer: Optimizer = "adagrad"
    lr: Positive = 0.01


@register
class Joint(FineTuning):
    """A new network at each boundary, trained on all tasks so far, mixed. Not continual learning."""

    name = "joint"
    uses_replay = True

    def _material(self, share: TaskExamples) -> list[TaskExamples]:
        self.kept = [*self.kept, share]
        self._start_networks()
        return self.kept


@register
class Rehearsal(FineTuning):
    """A memory of fixed size, shared equally by the tasks so far; old and new images count alike."""

    name = "rehearsal"
    uses_replay = True

    memory: Count = 1100
    """Images in all. 1,100 of them as float32 take the bytes of the two tensors that a regulariser keeps
    beside a network of 2 × 400 units on 32×32 pixels."""

    def _material(self, share: TaskExamples) -> list[TaskExamples]:
        # Old images are few: repeat them until they weigh about as much as the new ones.
        times = max(share.index.shape[1] // self.memory, 1)
        return self.kept * times + [share]

    def _after(self, share: TaskExamples, examples: Examples) -> None:
        each = self.memory // (len(self.kept) + 1)
        self.kept = [self._some(s, each) for s in [*self.kept, share]]

    def _some(self, share: TaskExamples, n: int) -> TaskExamples:
        """At most n random images for each run."""
        size = share.index.shape[1]
        chosen = torch.stack([torch.randperm(size, generator=g)[:n] for g in self._generators])
        return TaskExamples(
            images=share.images,
            index=share.index.gather(1, chosen),
            labels=share.labels.gather(1, chosen),
        )
