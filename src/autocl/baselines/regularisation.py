"""Regularisation that protects earlier tasks: of weights (L2, EWC, SI, MAS) or of answers (LwF).

The first four add the penalty λ Σ Ω (θ - θ*)² and differ only in the importance Ω. Learning without
forgetting distils: the new network must answer new images as the old one would have.

Shape legend: R = runs, B = batch, P = parameters, N = outputs.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from autocl.baselines.base import Examples, StreamInfo, TaskExamples, register
from autocl.baselines.finetuning import FineTuning
from autocl.baselines.mlp import BatchedMLP
from autocl.config import Amount, Count, Positive
from autocl.data.stream_config import Scenario

IMPORTANCE_BATCH = 500
"""Examples of each run whose importance is computed at a time."""


@dataclass(kw_only=True, eq=False)
class QuadraticPenalty(FineTuning):
    """Fine-tuning under the penalty; a subclass says how important the finished task made each weight."""

    default_strength: ClassVar[dict[Scenario, float]]
    """λ of Hsu et al. for each scenario."""

    strength: Amount | None = None
    """λ; None takes the default of the scenario."""

    def begin(self, info: StreamInfo) -> None:
        """Draw the networks of all runs and forget the rest."""
        super().begin(info)
        # θ* and Ω, both [R, P].
        self.anchor = self.stack.flat.clone()
        self.importance = torch.zeros_like(self.stack.flat)
        self._strength = self.default_strength[info.scenario] if self.strength is None else self.strength
        self._tied = False
        self._pull = torch.empty_like(self.stack.flat)

    def consolidate(self, examples: Examples) -> None:
        """Update `importance` and `anchor` at a boundary, having trained on these examples."""
        self.importance = self.importance + self.task_importance(examples)
        self.anchor = self.stack.flat.clone()

    @abstractmethod
    def task_importance(self, examples: Examples) -> Tensor:
        """Importance [R, P] of every weight for the task just learned."""

    def _adjust(self, gradient: Tensor) -> None:
        if self._tied:
            torch.sub(self.stack.flat, self.anchor, out=self._pull)
            gradient.add_(self._pull.mul_(self.importance), alpha=2 * self._strength)

    def _after(self, share: TaskExamples, examples: Examples) -> None:
        self.consolidate(examples)
        self._tied = True

    def _state(self) -> list[Tensor]:
        return [*super()._state(), self.anchor, self.importance]


@register
class L2(QuadraticPenalty):
    """Ω = 1. The yardstick for every cleverer importance."""

    name = "l2"
    default_strength = {"domain": 0.5, "class": 100.0}  # noqa: RUF012 (a ClassVar)

    def consolidate(self, examples: Examples) -> None:
        """Tie to the present weights; unlike the others, importance does not grow from task to task."""
        self.importance = self.task_importance(examples)
        self.anchor = self.stack.flat.clone()

    def task_importance(self, examples: Examples) -> Tensor:
        """Ones."""
        return torch.ones_like(self.stack.flat)


@register
class OnlineEWC(QuadraticPenalty):
    """One running Fisher information, summed over tasks, around the latest weights (Schwarz et al. 2018)."""

    name = "online-ewc"
    default_strength = {"domain": 700.0, "class": 100.0}  # noqa: RUF012 (a ClassVar)

    def task_importance(self, examples: Examples) -> Tensor:
        """Mean over examples of the squared gradient of log p(ŷ | x), where ŷ is the network's own answer.

        The gradient of every single example is squared, not that of a batch, which would cancel out.
        """
        n = examples.rows.shape[1]
        total = torch.zeros_like(self.stack.flat)
        for start in range(0, n, IMPORTANCE_BATCH):
            order = torch.arange(start, min(start + IMPORTANCE_BATCH, n)).expand(self._runs, -1)
            activity = self.stack.forward(examples.take(order)[0])
            logits = self._logits(activity[-1])
            answer = F.one_hot(logits.argmax(-1), logits.shape[-1])
            total += self.stack.backward(activity, logits.softmax(-1) - answer, each=torch.square)
        return total / n


@register
class EWC(OnlineEWC):
    """One penalty for each task, around the weights of its own end (Kirkpatrick et al. 2017)."""

    name = "ewc"
    default_strength = {"domain": 100.0, "class": 600.0}  # noqa: RUF012 (a ClassVar)

    def consolidate(self, examples: Examples) -> None:
        """Add a penalty; a sum of quadratics is one quadratic about the mean weighted by importance.

        So two tensors do for any number of tasks. Where nothing is important the anchor does not matter.
        """
        new = self.task_importance(examples)
        total = self.importance + new
        shift = (self.stack.flat - self.anchor) * new / total
        self.anchor = torch.where(total > 0, self.anchor + shift, self.anchor)
        self.importance = total


@register
class SI(QuadraticPenalty):
    """Path integral of gradient times movement, over the squared distance gone (Zenke et al. 2017)."""

    name = "si"
    default_strength = {"domain": 3000.0, "class": 600.0}  # noqa: RUF012 (a ClassVar)

    damping: float = 0.1
    """ξ, keeps the importance of weights that hardly moved finite."""

    def task_importance(self, examples: Examples) -> Tensor:
        """ω / (Δ² + ξ), Δ the way from boundary to boundary. Negative where the loss rose along a weight."""
        return self.path / ((self.stack.flat - self.anchor).square_() + self.damping)

    def _before(self, examples: Examples) -> None:
        # [R, P]: the integral since the last boundary.
        self.path = torch.zeros_like(self.stack.flat)
        self._start, self._own = torch.empty_like(self.path), torch.empty_like(self.path)

    def _step(self, gradient: Tensor) -> None:
        # The gradient of the task's own loss counts, before the penalty is added to it in place.
        start, own = self._start.copy_(self.stack.flat), self._own.copy_(gradient)
        super()._step(gradient)
        self.path.addcmul_(own, start.sub_(self.stack.flat))


@register
class MAS(QuadraticPenalty):
    """Mean magnitude of ∂‖f(x)‖²/∂θ (Aljundi et al. 2018); needs no labels."""

    name = "mas"
    default_strength = {"domain": 10000.0, "class": 1.0}  # noqa: RUF012 (a ClassVar)

    together: Count = 128
    """Examples whose gradient is averaged before its magnitude is taken. The definition takes 1; the code of
    Aljundi et al. and of Hsu et al. takes a batch, which is smaller where examples disagree, and λ was found
    with it."""

    def task_importance(self, examples: Examples) -> Tensor:
        """f are the outputs that may be meant; the norm is divided by their number, as in Hsu et al.'s λ."""
        n, meant = examples.rows.shape[1], int(self.seen.sum())
        # Examples come sorted by class; batches must be mixed. A generator of its own leaves training alone.
        shuffles = [torch.Generator().manual_seed(seed) for seed in self.info.seeds]
        order = torch.stack([torch.randperm(n, generator=g) for g in shuffles])
        single = self.together == 1
        total = torch.zeros_like(self.stack.flat)
        for part in torch.split(order, IMPORTANCE_BATCH if single else self.together, dim=1):
            activity = self.stack.forward(examples.take(part)[0])
            delta = activity[-1] * self.seen * (2 / meant)
            # The sum of a batch's gradients has the magnitude of its mean times its size.
            total += self.stack.backward(activity, delta, each=torch.abs if single else None).abs_()
        return total / n


@register
class LwF(FineTuning):
    """Distillation from the network of the last boundary on the images of the new task (Li & Hoiem 2016).

    Loss at the t-th task: 1/t of the cross-entropy and 1 - 1/t of the distillation, as in van de Ven &
    Tolias 2018, who published the numbers that stand in the table. The teacher gives no probability to
    classes it does not know, so that in the class scenario the student is held back from them. Unlike
    theirs, the distillation is not scaled up by the squared temperature: at 4 epochs a task nothing new would
    be learned.
    """

    name = "lwf"

    temperature: Positive = 2.0

    def deviation_note(self) -> str:
        """Deviation on the full diet; nobody published the other."""
        if self.diet != "full":
            return ""
        return (
            "4 epochs of each task as all rows, 350 to 400 steps; the published numbers are van de Ven & "
            "Tolias's, who train 2,000. Trained that long, with their weights, one run fell from 76 to 73 % "
            "in the domain scenario (validation part)"
        )

    def begin(self, info: StreamInfo) -> None:
        """Draw the networks of all runs and forget the rest."""
        super().begin(info)
        self.teacher: BatchedMLP | None = None
        # bool [N]: outputs that the teacher knows.
        self.taught = torch.zeros_like(self.seen)
        self._position = 0

    def targets(self, x: Tensor) -> Tensor:
        """Softened answers of the teacher, [R, B, N]; zero at outputs it does not know."""
        assert self.teacher is not None
        raw = self.teacher.forward(x)[-1] / self.temperature
        return raw.masked_fill(~self.taught, -torch.inf).softmax(-1)

    def _before(self, examples: Examples) -> None:
        self._position += 1
        if self._position > 1:
            self.teacher = self.stack.with_weights(self.stack.flat.clone())

    def _loss(self, x: Tensor, logits: Tensor, labels: Tensor) -> Tensor:
        own = super()._loss(x, logits, labels)
        if self.teacher is None:
            return own
        log_answer = (self._logits(logits) / self.temperature).log_softmax(-1)
        # 0 · log 0 at outputs the teacher does not know is to be 0.
        kept = -(self.targets(x) * log_answer.masked_fill(~self.taught, 0.0)).sum(-1).mean(1)
        return own / self._position + kept * (1 - 1 / self._position)

    def _after(self, share: object, examples: Examples) -> None:
        self.taught = self.seen
