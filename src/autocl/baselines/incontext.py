"""Methods that learn in their forward pass: a learner, or a read-out on a learner's frozen encoder.

Every image is encoded once. Class means, LDA, ridge regression and k-NN need no meta-training of their own.

Shape legend: R = runs side by side, T = demos, Q = queries, F = features, N = outputs.
"""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor

from autocl.baselines.base import Cost, Diet, Method, StreamInfo, examples_of, register, rows_for
from autocl.baselines.embedding import Embedding, given_embedding, measuring
from autocl.config import Count, Positive, Range, check
from autocl.data.imageset import LabelledSet
from autocl.data.stream import Task
from autocl.errors import InputError
from autocl.learner import Learner, ReadoutLearner, ReadoutLearnerConfig
from autocl.learner.state import LearnerState
from autocl.readouts import ReadoutConfig

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
        """State of the learner, for all runs."""
        if self._state is None:
            raise InputError("the method has not begun: call begin() before learn() or predict()")
        return self._state

    def begin(self, info: StreamInfo) -> None:
        """Start from the learner's initial state, once for each run."""
        state = self.learner.initial_state(len(info.seeds), info.n_outputs).detach()
        self._info, self._examples, self._state = info, 0, state

    def learn(self, task: Task) -> None:
        """Show one task to every run."""
        state, share = self.state, examples_of(task, self.diet)
        if len(share.index) != state.batch:
            raise InputError(f"got tasks of {len(share.index)} runs, begin was told of {state.batch}")
        device = self.learner.device
        with measuring(self.learner):
            f = self.features.take(share.images, share.index)
            self._state = self.learner.learn_features(f.to(device), share.labels.to(device), state)
        self._examples += f.shape[1]

    def predict(self, images: LabelledSet, index: Tensor) -> Tensor:
        """Logits [R, Q, N] for rows [Q] or [R, Q]."""
        state = self.state
        N, device = self.info.n_outputs, self.learner.device
        rows = rows_for(index, state.batch)
        answers = []
        with measuring(self.learner):
            for part in torch.split(rows, max(1, ASK_BATCH // state.batch), dim=1):
                # Rows common to all runs are looked up once and repeated without a copy.
                f = self.features.take(images, part[0] if index.dim() == 1 else part)
                f = f.expand(state.batch, -1, -1)
                answers.append(self.learner.predict_features(f.to(device), state)[..., :N].cpu())
        return torch.cat(answers, dim=1)

    def cost(self) -> Cost:
        """Demos seen, the gradient steps they cost, and the size of one run's state."""
        return Cost(
            examples=self._examples,
            gradient_steps=self._examples * self.learner.steps_per_demo,
            state_bytes=self.state.nbytes // self.state.batch,
        )


@dataclass(kw_only=True, eq=False)
class OnEncoder(InContext):
    """A `ReadoutLearner` on an encoder that something else was trained with, such as a learner of ours.

    What a subclass has of fields is passed on to its read-out.
    """

    needs = frozenset({"encoder"})
    kind: ClassVar[str]
    """Of the read-out; see `ReadoutConfig`."""
    unit_features = False

    diet: Diet = "demos"
    embedding: Embedding | Learner | str | Path | None = None
    """The encoder, or a learner (itself, its name or path) whose encoder is meant; it must be given."""

    def __post_init__(self) -> None:
        check(self)
        features = given_embedding(self.name, self.embedding)
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("diet", "embedding")}
        readout = ReadoutConfig(kind=self.kind, **own)
        config = ReadoutLearnerConfig(readout=readout, unit_features=self.unit_features)
        learner = ReadoutLearner(config, features.encoder).train(features.encoder.training)
        super().__init__(learner, features, diet=self.diet)

    def settings(self) -> dict[str, Any]:
        """Settings; the encoder by its fingerprint, wherever it came from."""
        return {**super().settings(), "embedding": self.features.fingerprint()}


@register
class NearestMean(OnEncoder):
    """Nearest class mean."""

    name = "nearest-mean"
    kind = "means"


@register
class StreamingLDA(OnEncoder):
    """Streaming linear discriminant analysis (Hayes & Kanan 2020)."""

    name = "streaming-lda"
    kind = "lda"

    shrinkage: Annotated[float, Range(0, 1, open_low=True)] = 0.1
    """See `ReadoutConfig`."""


@register
class ShrunkLDA(StreamingLDA):
    """LDA on features of unit length, its covariance half-way to a multiple of the identity."""

    name = "shrunk-lda"
    unit_features = True

    shrinkage: Annotated[float, Range(0, 1, open_low=True)] = 0.5


@register
class Ridge(OnEncoder):
    """Online ridge regression of one-hot labels on features of unit length."""

    name = "ridge"
    kind = "ridge"

    penalty: Positive = 1.0
    """λ, in demos: unit-length features make one demo add 1 to the trace, and its constant 1 more."""


@register
class NearestNeighbours(OnEncoder):
    """k-NN. Its state grows with the stream: it replays features, if not images."""

    name = "knn"
    kind = "knn"
    uses_replay = True

    neighbours: Count = 5
    """k."""


def simple_rivals(features: Embedding) -> dict[str, Method]:
    """Simple methods to hold a learner against, on the same features, by their names in tables."""
    return {
        "class means": NearestMean(embedding=features),
        "LDA": ShrunkLDA(embedding=features),
        "1-NN": NearestNeighbours(embedding=features, neighbours=1),
    }
