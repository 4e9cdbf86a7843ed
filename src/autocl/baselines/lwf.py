"""Learning without forgetting: the new network must answer new images as the old one would have.

Shape legend: R = runs, B = batch, N = outputs.
"""

import torch
from torch import Tensor

from autocl.baselines.base import StreamInfo, register
from autocl.baselines.examples import Examples
from autocl.baselines.finetuning import FineTuning
from autocl.baselines.mlp import BatchedMLP
from autocl.config import Positive


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

    def differs(self) -> str:
        """Of the full diet; nobody published the other."""
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
