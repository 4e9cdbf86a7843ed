"""The ACL objective: at every task boundary, answer queries of all tasks seen so far.

The loop is not that of `autocl.passage`, which takes any method through image sets without gradients and in
evaluation mode. Here the state carries gradients, forks before a task for the 1-shot term (in an order that
dropout's random numbers depend on), and features of a pool take the place of image sets. What the two loops
would share is one line, `learn` of each task in turn. Streams and matrices are the same for both.

Shape legend: B = streams, M = tasks, T = demos, Q = queries, F = features, U = images of the batch.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from autocl.config import Amount, check
from autocl.data.stream import Stream, Task
from autocl.learner import Learner
from autocl.learner.state import LearnerState
from autocl.matrix import TransferMatrix


@dataclass(frozen=True, kw_only=True)
class ObjectiveConfig:
    """Terms of the loss and their weights.

    The loss is the sum of the weighted terms divided by their number: the paper's 1/5 of five terms with the
    1-shot term at two tasks, 1/9 of nine at three, 1/15 of fifteen without it at five.
    """

    boundaries: Literal["every", "last"] = "every"
    """At which boundaries queries are asked: ACL asks after every task about all tasks so far; OML, GeMCL and
    prototypical networks are trained by what is known of all tasks after the last."""
    acl: bool = True
    """Minimise the backward terms, too. Without them the first task is forgotten; they are still measured."""
    own_weights: tuple[Amount, ...] = ()
    """Weight of the own and 1-shot terms of tasks from each image set (the authors use 0.1 for Omniglot in
    two-task training); empty: all 1. Backward terms always weigh 1."""
    body_weight: Amount = 0.0
    """Learners with fast weights and a ridge read-out: add to every term this much of the cross-entropy of
    the fast weights alone. Without it the read-out, right from the start, leaves them no error to learn."""

    def __post_init__(self) -> None:
        check(self)

    def own_weight(self, source: int) -> float:
        """Weight of own terms of tasks from this source."""
        return self.own_weights[source] if 0 <= source < len(self.own_weights) else 1.0


@dataclass(frozen=True, kw_only=True)
class StreamLosses:
    """Loss of a batch of streams, its terms, and the state after the last task."""

    loss: Tensor
    losses: TransferMatrix
    """Cross-entropies [M, M], means over the batch; NaN where nothing was asked."""
    accuracies: TransferMatrix
    """In [0, 1], same shape."""
    one_shot: Tensor
    """[M], cross-entropies of the 1-shot term; NaN where the batch has none."""
    state: LearnerState
    sources: tuple[int, ...]
    """[M], which image set each task came from; -1 = a mixture."""


def acl_objective(
    learner: Learner,
    features: Tensor,
    batch: Stream,
    config: ObjectiveConfig,
    *,
    state: LearnerState | None = None,
) -> StreamLosses:
    """Take a batch of streams through the learner.

    Args:
        learner: the learner.
        features: [U, F], one row for each image of the batch's pool.
        batch: the streams.
        config: the terms of the loss.
        state: where the streams start; default: the initial state.
    """
    tasks = batch.tasks
    M, B = len(tasks), len(tasks[0].demos)
    state = learner.initial_state(B, batch.n_outputs) if state is None else state
    losses = features.new_full((M, M), float("nan"))
    accuracies, first = losses.clone(), losses[0].clone()
    terms: list[Tensor] = []
    for i, task in enumerate(tasks):
        weight = config.own_weight(task.source)
        if config.boundaries == "last" and i + 1 < M:
            state = learner.learn_features(features[task.demos], task.demo_labels, state)
            continue
        if task.one_shot is not None and task.one_shot_labels is not None:
            tried = learner.learn_features(features[task.one_shot], task.one_shot_labels, state)
            (answer,) = _ask(learner, features, [task], tried, config)
            first[i] = answer.loss
            terms.append(weight * answer.term)
        state = learner.learn_features(features[task.demos], task.demo_labels, state)
        for j, answer in enumerate(_ask(learner, features, tasks[: i + 1], state, config)):
            losses[i, j], accuracies[i, j] = answer.loss, answer.accuracy
            if j == i:
                terms.append(weight * answer.term)
            elif config.acl:
                terms.append(answer.term)
    return StreamLosses(
        loss=torch.stack(terms).mean(),
        losses=TransferMatrix(losses),
        accuracies=TransferMatrix(accuracies),
        one_shot=first,
        state=state,
        sources=tuple(task.source for task in tasks),
    )


class _Answer(NamedTuple):
    """Answers to the queries of one task."""

    term: Tensor
    """The term that is minimised."""
    loss: Tensor
    accuracy: Tensor


def _ask(
    learner: Learner,
    features: Tensor,
    tasks: tuple[Task, ...] | list[Task],
    state: LearnerState,
    config: ObjectiveConfig,
) -> list[_Answer]:
    """Ask the queries of these tasks, all of them in one pass."""
    f = features[torch.cat([task.queries for task in tasks], dim=1)]
    sizes = [task.queries.shape[1] for task in tasks]
    logits, alone = learner.answer_features(f, state)
    parts = torch.split(logits, sizes, 1)
    bodies = [None] * len(tasks) if alone is None else torch.split(alone, sizes, 1)
    answers = []
    for task, own, body in zip(tasks, parts, bodies, strict=True):
        labels = task.query_labels
        term = loss = F.cross_entropy(own.flatten(0, 1), labels.flatten())
        if config.body_weight and body is not None:
            term = loss + config.body_weight * F.cross_entropy(body.flatten(0, 1), labels.flatten())
        accuracy = (own.argmax(-1) == labels).to(own.dtype).mean()
        answers.append(_Answer(term, loss.detach(), accuracy.detach()))
    return answers


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
