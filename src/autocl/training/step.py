"""One step of meta-training: encode a batch of streams, take its loss, and update the weights.

Everything random is a function of (seed, step, rank): streams, augmentation, dropout.

Shape legend: U = images.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn
from torch.linalg import LinAlgError  # type: ignore[attr-defined]  # documented, but not in __all__

from autocl.data.stream import Stream
from autocl.errors import TrainingError
from autocl.learner import Learner, LearnerState
from autocl.matrix import TransferMatrix
from autocl.objective import StreamLosses, acl_objective, prototype_loss
from autocl.ops.linear import bf16_pays, bf16_products
from autocl.training.recipe import Recipe
from autocl.training.run import Run


class DivergedError(TrainingError):
    """A loss, gradient or linear system stopped making sense."""


@dataclass(frozen=True, kw_only=True)
class StepResult:
    """Measurements of one step of the optimiser; means over all ranks."""

    loss: float
    """The loss that was minimised, with the prototype loss."""
    gradient: float
    """Norm of the gradient before clipping."""
    rate: float
    """Learning rate."""
    outcome: StreamLosses


class TrainingStep(nn.Module):
    """Encode the pool once, take the streams through the learner, add the prototype loss."""

    def __init__(self, learner: Learner, recipe: Recipe) -> None:
        super().__init__()
        self.learner = learner
        self.recipe = recipe

    def forward(
        self, images: Tensor, batch: Stream, state: LearnerState | None = None
    ) -> tuple[Tensor, StreamLosses]:
        """Loss to minimise and what was measured.

        Args:
            images: [U, C, H, W], the batch's pool.
            batch: the streams.
            state: handed on from the batch before, or None.
        """
        bf16 = self.recipe.bf16 and bf16_pays(images.device)
        with torch.autocast(images.device.type, torch.bfloat16, enabled=bf16):
            features = self.learner.encode(images)
        features = features.float()
        with bf16_products(bf16):
            outcome = acl_objective(self.learner, features, batch, self.recipe.objective, state=state)
        loss = outcome.loss
        if self.recipe.prototype:
            loss = loss + self.recipe.prototype * prototype_loss(features, batch.pool_classes)
        return loss, outcome


def train_step(run: Run, module: torch.nn.Module, step: int) -> StepResult:
    """One step of the optimiser. Nothing of the run changes unless loss and gradient are finite."""
    recipe, ranks = run.recipe, run.ranks
    dropout = np.random.SeedSequence((recipe.seed, step, ranks.rank, 2)).generate_state(1, np.uint64)
    torch.manual_seed(int(dropout[0] >> 1))
    rate = recipe.optimiser.rate(step, steps=recipe.steps, width=run.learner.width)
    for group in run.optimiser.param_groups:
        group["lr"] = rate
    run.optimiser.zero_grad(set_to_none=True)
    lo, hi = ranks.local_slice(recipe.batch_size)
    batch = run.train.batch(step, lo, hi).to(ranks.device)
    c = recipe.learner
    images = run.train.images(batch, channels=c.channels, augment=recipe.augments, standardise=c.standardise)
    afresh = not recipe.carry_state or step % (recipe.carry_state + 1) == 0
    try:
        loss, outcome = module(images.to(ranks.device), batch, None if afresh else run.carried)
    except LinAlgError as error:  # a ridge read-out whose system lost its rank
        raise DivergedError(str(error)) from error
    loss.backward()
    total, losses, accuracies, one_shot = ranks.mean(
        loss.detach(), outcome.losses.values, outcome.accuracies.values, outcome.one_shot
    )
    outcome = replace(
        outcome, losses=TransferMatrix(losses), accuracies=TransferMatrix(accuracies), one_shot=one_shot
    )
    weights = [p for p in run.learner.parameters() if p.requires_grad]
    norm = torch.nn.utils.get_total_norm([w.grad for w in weights if w.grad is not None])
    for name, value in (("loss", total), ("norm of the gradient", norm)):
        if not math.isfinite(value):
            raise DivergedError(f"the {name} became {float(value)}")
    if recipe.optimiser.clip:
        torch.nn.utils.clip_grads_with_norm_(weights, recipe.optimiser.clip, norm)
    run.optimiser.step()
    run.carried = outcome.state.detach() if recipe.carry_state else None
    return StepResult(loss=float(total), gradient=float(norm), rate=rate, outcome=outcome)
