"""InContext: takes a meta-learned learner through streams, encoding every image once.

Shape legend: R = runs side by side, T = demos, Q = queries, F = features, N = outputs.
"""

from typing import ClassVar

import torch
from torch import Tensor

from autocl.baselines.base import Cost, Diet, Method, StreamInfo, rows_for
from autocl.baselines.embedding import Embedding, measuring
from autocl.baselines.examples import share_of
from autocl.data.imageset import ImageSet
from autocl.data.stream import Task
from autocl.errors import InputError
from autocl.learner import Learner
from autocl.learner.state import LearnerState

ASK_BATCH = 8192
"""Queries answered at once, over all runs: the widest intermediate is 16 MB at the paper's size."""


class InContext(Method):
    """A learner as a method: one forward pass over the demos, all runs as one batch of streams.

    Answers are restricted to the outputs the stream uses, the first N of the learner's, as the paper does
    with its 5-way model on 2-way tasks.

    Args:
        learner: any learner with at least as many classes as the stream has outputs.
        features: the embedding of its encoder, if it is shared with others; default: one of its own.
        diet: what it is shown of each task.

    Example:
        >>> from autocl import LearnerConfig
        >>> InContext(Learner(LearnerConfig(n_classes=5))).name
        'in-context'
    """

    name: ClassVar[str] = "in-context"

    def __init__(self, learner: Learner, features: Embedding | None = None, *, diet: Diet = "demos") -> None:
        self.learner = learner
        self.diet = diet
        self.features = Embedding.of(learner) if features is None else features
        self._state: LearnerState | None = None
        self._examples = 0

    @property
    def state(self) -> LearnerState:
        """What the learner knows now, for all runs."""
        if self._state is None:
            raise InputError("the method has not begun: call begin() before learn() or predict()")
        return self._state

    def begin(self, info: StreamInfo) -> None:
        """Start from the learner's initial state, once for each run."""
        state = self.learner.initial_state(len(info.seeds), info.n_outputs).detach()
        self._info, self._examples, self._state = info, 0, state

    def learn(self, task: Task) -> None:
        """Show one task to every run."""
        state, share = self.state, share_of(task, self.diet)
        if len(share.index) != state.batch:
            raise InputError(f"got tasks of {len(share.index)} runs, begin was told of {state.batch}")
        device = self.learner.device
        with measuring(self.learner):
            f = self.features.take(share.images, share.index)
            self._state = self.learner.learn_features(f.to(device), share.labels.to(device), state)
        self._examples += f.shape[1]

    def predict(self, images: ImageSet, index: Tensor) -> Tensor:
        """Logits [R, Q, N] for rows [Q] or [R, Q]."""
        state = self.state
        N, device = self.info.n_outputs, self.learner.device
        rows = rows_for(index, state.batch)
        answers = []
        with measuring(self.learner):
            for part in torch.split(rows, max(1, ASK_BATCH // state.batch), dim=1):
                # Rows common to all runs are looked up once and repeated without a copy.
                f = (
                    self.features.take(images, part[0]).expand(state.batch, -1, -1)
                    if index.dim() == 1
                    else self.features.take(images, part)
                )
                answers.append(self.learner.predict_features(f.to(device), state)[..., :N].cpu())
        return torch.cat(answers, dim=1)

    def cost(self) -> Cost:
        """Demos seen, the gradient steps they cost, and the size of one run's state."""
        return Cost(
            examples=self._examples,
            gradient_steps=self._examples * self.learner.steps_per_demo,
            state_bytes=self.state.nbytes // self.state.batch,
        )
