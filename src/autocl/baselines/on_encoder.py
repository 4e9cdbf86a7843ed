"""Read-outs on a frozen encoder: class means, LDA, ridge regression and k-NN, without any meta-training."""

from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from autocl.baselines.base import Diet, register
from autocl.baselines.embedding import Embedding
from autocl.baselines.incontext import InContext
from autocl.config import Count, Positive, Range, check
from autocl.errors import InputError
from autocl.learner import Learner, ReadoutLearner, ReadoutLearnerConfig
from autocl.readouts import ReadoutConfig


@dataclass(kw_only=True, eq=False)
class OnEncoder(InContext):
    """A `ReadoutLearner` on an encoder that something else was trained with, such as a learner of ours."""

    needs = frozenset({"encoder"})
    unit_features = False

    diet: Diet = "demos"
    embedding: Embedding | Learner | str | Path | None = None
    """The encoder, or a learner (itself, its name or path) whose encoder is meant; it must be given."""

    def __post_init__(self) -> None:
        check(self)
        if self.embedding is None:
            raise InputError(
                f"method {self.name!r} stands on a learner's encoder: give one (embedding=…; on the command "
                "line --embedding NAME)"
            )
        given = self.embedding
        features = given if isinstance(given, Embedding) else Embedding.of(given)
        config = ReadoutLearnerConfig(readout=self.readout(), unit_features=self.unit_features)
        learner = ReadoutLearner(config, features.encoder).train(features.encoder.training)
        super().__init__(learner, features, diet=self.diet)

    @abstractmethod
    def readout(self) -> ReadoutConfig:
        """Which one."""

    def settings(self) -> dict[str, Any]:
        """What was chosen; the encoder by its fingerprint, wherever it came from."""
        return {**super().settings(), "embedding": self.features.fingerprint()}


@register
class NearestMean(OnEncoder):
    """Nearest class mean."""

    name = "nearest-mean"

    def readout(self) -> ReadoutConfig:
        """Class means."""
        return ReadoutConfig(kind="means")


@register
class StreamingLDA(OnEncoder):
    """Streaming linear discriminant analysis (Hayes & Kanan 2020)."""

    name = "streaming-lda"

    shrinkage: Annotated[float, Range(0, 1, open_low=True)] = 0.1
    """See `ReadoutConfig`."""

    def readout(self) -> ReadoutConfig:
        """Class means and a shared covariance."""
        return ReadoutConfig(kind="lda", shrinkage=self.shrinkage)


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

    penalty: Positive = 1.0
    """λ, in demos: unit-length features make one demo add 1 to the trace, and its constant 1 more."""

    def readout(self) -> ReadoutConfig:
        """Least squares with a penalty."""
        return ReadoutConfig(kind="ridge", penalty=self.penalty)


@register
class NearestNeighbours(OnEncoder):
    """k-NN. Its state grows with the stream: it replays features, if not images."""

    name = "knn"
    uses_replay = True

    neighbours: Count = 5
    """k."""

    def readout(self) -> ReadoutConfig:
        """All demos."""
        return ReadoutConfig(kind="knn", neighbours=self.neighbours)
