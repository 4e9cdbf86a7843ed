"""The loss of one batch as a module, so that DistributedDataParallel can wrap it, and the prototype loss.

Shape legend: U = images, F = features, K = classes among them.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autocl.data.stream import Stream
from autocl.learner import Learner, LearnerState
from autocl.objective import Outcome, acl_objective
from autocl.training.recipe import Recipe


class TrainingStep(nn.Module):
    """Encode the pool once, take the streams through the learner, add the prototype loss."""

    def __init__(self, learner: Learner, recipe: Recipe) -> None:
        super().__init__()
        self.learner = learner
        self.recipe = recipe

    def forward(
        self, images: Tensor, batch: Stream, state: LearnerState | None = None
    ) -> tuple[Tensor, Outcome]:
        """Loss to minimise and what was measured.

        Args:
            images: [U, C, H, W], the batch's pool.
            batch: the streams.
            state: handed on from the batch before, or None.
        """
        with torch.autocast(images.device.type, torch.bfloat16, enabled=self.recipe.bf16):
            features = self.learner.encode(images)
        features = features.float()
        outcome = acl_objective(self.learner, features, batch, self.recipe.objective, state=state)
        loss = outcome.loss
        if self.recipe.prototype:
            loss = loss + self.recipe.prototype * prototype_loss(features, batch.pool_classes)
        return loss, outcome


def prototype_loss(features: Tensor, classes: Tensor) -> Tensor:
    """Cross-entropy of classifying each image by its squared distance to the class means of the batch.

    It teaches the encoder while the self-modifying layers cannot do so yet. An image is left out of its own
    class's mean. Classes with a single image have no mean to compare with and are left out altogether.

    Args:
        features: [U, F].
        classes: int64 [U], any numbering.

    Returns:
        A scalar; 0 when fewer than two classes have two images.

    Example:
        >>> f = torch.tensor([[0.0, 1.0], [0.0, 1.0], [9.0, 0.0], [9.0, 0.0]])
        >>> prototype_loss(f, torch.tensor([7, 7, 3, 3])) < 1e-6
        tensor(True)
    """
    _, label, counts = torch.unique(classes, return_inverse=True, return_counts=True)
    usable = counts[label] > 1
    features, label = features[usable], label[usable]
    _, label, counts = torch.unique(label, return_inverse=True, return_counts=True)
    if len(counts) < 2:
        return features.sum() * 0.0
    one_hot = F.one_hot(label, len(counts)).to(features.dtype)
    sums, n = one_hot.T @ features, counts.to(features.dtype)
    means = sums / n[:, None]
    distance = torch.cdist(features, means, compute_mode="use_mm_for_euclid_dist").square()
    # Without itself, an image is n/(n-1) times as far from its own class's mean.
    own = (n / (n - 1)).square()[label, None]
    distance = torch.where(one_hot.bool(), distance * own, distance)
    return F.cross_entropy(-distance / features.shape[1] ** 0.5, label)
