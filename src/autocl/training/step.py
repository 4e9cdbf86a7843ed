"""TrainingStep: the loss of one batch as a module, so that DistributedDataParallel can wrap it."""

import torch
from torch import Tensor, nn

from autocl.data.stream import Stream
from autocl.learner.fast import Learner
from autocl.learner.state import LearnerState
from autocl.objective import Outcome, acl_objective
from autocl.training.prototype import prototype_loss
from autocl.training.recipe import Recipe


class TrainingStep(nn.Module):
    """Encode the pool once, take the streams through the learner, add the prototype loss."""

    def __init__(self, learner: Learner, recipe: Recipe) -> None:
        super().__init__()
        self.learner = learner
        self.recipe = recipe

    def forward(
        self, images: Tensor, batch: Stream, state: LearnerState | None, prototype: float
    ) -> tuple[Tensor, Outcome]:
        """Loss to minimise and what was measured.

        Args:
            images: [U, C, H, W], the batch's pool.
            batch: the streams.
            state: handed on from the batch before, or None.
            prototype: weight of the prototype loss.
        """
        with torch.autocast(images.device.type, torch.bfloat16, enabled=self.recipe.bf16):
            features = self.learner.encode(images)
        features = features.float()
        outcome = acl_objective(self.learner, features, batch, self.recipe.objective, state=state)
        loss = outcome.loss
        if prototype:
            loss = loss + prototype * prototype_loss(features, batch.pool_classes)
        return loss, outcome
