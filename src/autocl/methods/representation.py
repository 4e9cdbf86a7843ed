"""OnFeatures: methods that learn with a readout on the features of a frozen encoder.

Shape legend: R = runs, T = demos, Q = queries, F = features, N = outputs.
"""

from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from autocl.data.imageset import ImageSet
from autocl.data.stream import Task
from autocl.data.stream_config import check_choice
from autocl.errors import InputError
from autocl.learner.fast import Learner
from autocl.methods.base import Cost, Diet, Method, StreamInfo, rows_for
from autocl.methods.embedding import Embedding
from autocl.methods.examples import share_of
from autocl.methods.readout import Readout, Stats

QUERY_BATCH = 1000
"""Queries of each run answered at a time."""


@dataclass(kw_only=True, eq=False)
class OnFeatures(Method):
    """Demos go through the encoder into the readout's stats, which are all that is carried on."""

    diet: Diet = "demos"

    def __post_init__(self) -> None:
        check_choice("diet", self.diet, Diet)
        self._embedding = self.make_embedding()

    @abstractmethod
    def make_embedding(self) -> Embedding:
        """The frozen encoder to use."""

    @abstractmethod
    def make_readout(self) -> Readout:
        """The readout to use; made anew at every `begin`."""

    def begin(self, info: StreamInfo) -> None:
        """Forget everything."""
        self._info = info
        self._readout = self.make_readout().eval()
        with torch.no_grad():
            self.stats: Stats = self._readout.initial(
                len(info.seeds), self._embedding.n_features, info.n_outputs
            )
        self._examples = 0

    def learn(self, task: Task) -> None:
        """Show the demos of the task, in their order."""
        share = share_of(task, self.diet)
        if len(share.index) != len(self.info.seeds):
            raise InputError(
                f"got tasks of {len(share.index)} runs, begin was told of {len(self.info.seeds)}"
            )
        f = self._embedding.take(share.images, share.index)
        with torch.no_grad():
            self.stats = self._readout.learn(self.stats, f, share.labels)
        self._examples += f.shape[1]

    def predict(self, images: ImageSet, index: Tensor) -> Tensor:
        """Logits [R, Q, N]."""
        rows = rows_for(index, len(self.info.seeds))
        answers = []
        for start in range(0, rows.shape[1], QUERY_BATCH):
            f = self._embedding.take(images, rows[:, start : start + QUERY_BATCH])
            with torch.no_grad():
                answers.append(self._readout.scores(self.stats, f))
        return torch.cat(answers, dim=1)

    def cost(self) -> Cost:
        """Demos seen, and the size of one run's stats."""
        runs = len(self.info.seeds)
        size = sum(t.numel() * t.element_size() for t in self.stats.values())
        return Cost(
            examples=self._examples,
            gradient_steps=self._examples * self._readout.steps_per_demo,
            state_bytes=size // runs,
        )


@dataclass(kw_only=True, eq=False)
class OnFrozenFeatures(OnFeatures):
    """On an encoder that something else was trained with, such as a learner of ours."""

    embedding: Embedding | Learner | str | Path | None = None
    """The encoder, or a learner (itself, its name or path) whose encoder is meant; it must be given."""

    def make_embedding(self) -> Embedding:
        """The one that was given."""
        given = self.embedding
        if given is None:
            raise InputError(
                f"method {self.name!r} stands on a learner's encoder: give one (embedding=…; on the command "
                "line --embedding NAME)"
            )
        return given if isinstance(given, Embedding) else Embedding.of(given)

    def settings(self) -> dict[str, Any]:
        """What was chosen; the encoder by its fingerprint, wherever it came from."""
        return {**super().settings(), "embedding": self._embedding.fingerprint()}
