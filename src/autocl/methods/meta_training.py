"""meta_train: one loop for every rival. Learn the demos of a stream, be judged on queries of all its tasks.

Shape legend: B = streams, U = images of the batch, F = features.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from autocl.data.batch import StreamBatch
from autocl.data.sampler import StreamSampler
from autocl.errors import InputError, TrainingError
from autocl.methods.rival import Rival


@dataclass(frozen=True, kw_only=True)
class MetaTraining:
    """How long and how fast. The shape of the streams is the sampler's."""

    steps: int = 2000
    lr: float = 1e-3
    """Of Adam; falls to zero along a cosine."""

    def __post_init__(self) -> None:
        if self.steps < 1 or self.lr <= 0:
            raise InputError(f"steps must be at least 1 and lr positive, got {self.steps} and {self.lr}")


@dataclass(frozen=True, kw_only=True)
class StreamLoss:
    """How a rival did on a batch of streams."""

    loss: Tensor
    accuracy: float
    """Of all queries after the last task, in [0, 1]."""


def stream_loss(rival: Rival, features: Tensor, batch: StreamBatch) -> StreamLoss:
    """Cross-entropy of the queries of all tasks after the last one; for OML this is the OML objective.

    Args:
        rival: whose readout learns.
        features: [U, F], one row for each image of the batch's pool.
        batch: the streams.
    """
    readout = rival.readout
    stats = readout.initial(len(batch.tasks[0].demos), features.shape[1], batch.n_outputs)
    for task in batch.tasks:
        stats = readout.learn(stats, features[task.demos], task.demo_labels)
    logits = readout.scores(stats, features[torch.cat([t.queries for t in batch.tasks], dim=1)])
    labels = torch.cat([t.query_labels for t in batch.tasks], dim=1)
    loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten())
    return StreamLoss(loss=loss, accuracy=float((logits.argmax(-1) == labels).double().mean()))


def meta_train(
    rival: Rival,
    sampler: StreamSampler,
    settings: MetaTraining,
    *,
    watch: Callable[[int, StreamLoss], None] | None = None,
) -> Rival:
    """Train encoder and readout in place and return the rival in evaluation mode.

    Args:
        rival: fresh or to be trained further.
        sampler: of meta-training streams.
        settings: steps and learning rate.
        watch: told the number of the step and its outcome.

    Example:
        >>> from autocl.data import load                                                   # doctest: +SKIP
        >>> from autocl.data.stream_config import StreamConfig                             # doctest: +SKIP
        >>> config = StreamConfig(tasks=5, ways=2, scenario="class", order="mixture")      # doctest: +SKIP
        >>> sampler = StreamSampler([load("omniglot")], config, batch_size=16, seed=0)     # doctest: +SKIP
        >>> rival = Rival(RivalConfig(readout="normal-gamma"))                             # doctest: +SKIP
        >>> meta_train(rival, sampler, MetaTraining()).save("gemcl.safetensors")           # doctest: +SKIP
    """
    rival.train()
    descent = torch.optim.Adam(rival.parameters(), lr=settings.lr)
    decay = torch.optim.lr_scheduler.CosineAnnealingLR(descent, settings.steps)
    for step in range(settings.steps):
        batch = sampler.batch(step)
        features = rival.encoder(sampler.images(batch, channels=rival.config.channels))
        outcome = stream_loss(rival, features, batch)
        if not torch.isfinite(outcome.loss):
            raise TrainingError(
                f"the loss of step {step} is not finite: lower MetaTraining.lr ({settings.lr}) or, for an "
                f"online readout, RivalConfig.rate ({rival.config.rate})"
            )
        descent.zero_grad()
        torch.autograd.backward(outcome.loss)
        descent.step()
        decay.step()
        if watch is not None:
            watch(step, outcome)
    return rival.eval()
