"""stream_loss: what every rival is meta-trained by. Learn a stream, be judged on queries of all its tasks.

Shape legend: U = images of the batch, F = features.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from autocl.data.stream import Stream
from autocl.methods.rival import Rival


@dataclass(frozen=True, kw_only=True)
class StreamLoss:
    """How a rival did on a batch of streams."""

    loss: Tensor
    accuracy: float
    """Of all queries after the last task, in [0, 1]."""


def stream_loss(rival: Rival, features: Tensor, batch: Stream) -> StreamLoss:
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
