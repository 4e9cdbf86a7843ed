"""Embedding: an encoder that gives the features of images or vectors, each row of a set computed once.

Shape legend: n = images of a set, F = features.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from autocl.data.features import compute_features, find_features
from autocl.data.imageset import FeatureSet, ImageSet, LabelledSet, some_rows
from autocl.data.preprocess import Standardise
from autocl.encoders import Encoder, Identity
from autocl.encoders.backbones import Backbone
from autocl.encoders.base import fingerprint_of
from autocl.errors import InputError
from autocl.learner import Learner
from autocl.learner.find import find_learner

BATCH = 1024
"""Images encoded at once: 12 MB of pixels at 3 × 32 × 32."""


@contextmanager
def measuring(module: nn.Module) -> Iterator[None]:
    """No gradients and no dropout inside; the module's mode is as before afterwards."""
    training = module.training
    if training:  # visiting every module costs as much as a small batch of queries
        module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        if training:
            module.train()


class Embedding:
    """Features of sets by a frozen encoder. They depend on no state, so runs and protocols share them.

    Args:
        encoder: any encoder; its mode and gradients are left as they are.
        channels: of its input; one-channel images are repeated.
        standardise: how its input is made of pixels.

    Example:
        >>> from autocl.learner.config import LearnerConfig
        >>> Embedding.of(Learner(LearnerConfig())).n_features
        128
    """

    def __init__(self, encoder: Encoder, *, channels: int, standardise: Standardise = "set") -> None:
        self.encoder = encoder
        self.channels = channels
        self.standardise = standardise
        # By identity; the set is kept alive so that its id is not given to another.
        self._known: dict[int, tuple[LabelledSet, Tensor, Tensor]] = {}

    @staticmethod
    def of(learner: Learner | str | Path) -> "Embedding":
        """The encoder inside a learner (itself, its name or path), which the ACL objective trained."""
        learner = find_learner(learner)
        c = learner.config
        return Embedding(learner.encoder, channels=c.channels, standardise=c.standardise)

    @property
    def n_features(self) -> int:
        """F."""
        return self.encoder.n_features

    def fingerprint(self) -> str:
        """Sixteen hex digits that identify the encoder's form, weights and input."""
        form: tuple[object, ...] = (type(self.encoder).__name__, self.channels)
        if self.standardise != "set":
            form = (*form, self.standardise)
        return fingerprint_of(self.encoder.state_dict(), repr(form))

    def take(self, images: LabelledSet, index: Tensor) -> Tensor:
        """Features [..., F] of the rows index [...], on the CPU."""
        if id(images) not in self._known:
            self._known[id(images)] = (images, *self._start(images))
        _, features, done = self._known[id(images)]
        wanted = torch.zeros_like(done)
        wanted[index.flatten()] = True
        rows = (wanted & ~done).nonzero()[:, 0]
        if len(rows):
            features[rows] = self._compute(images, rows)
            done[rows] = True
        return features[index]

    def _start(self, images: LabelledSet) -> tuple[Tensor, Tensor]:
        """Room for the features of a set [n, F], and which of them are there already, bool [n]."""
        n = int(images.starts[-1])
        return torch.empty(n, self.n_features), torch.zeros(n, dtype=torch.bool)

    def _compute(self, images: LabelledSet, rows: Tensor) -> Tensor:
        """Features of rows [n] of a set, [n, F]."""
        device = next((p.device for p in self.encoder.parameters()), torch.device("cpu"))
        made = []
        with measuring(self.encoder):
            for some in torch.split(rows, BATCH):
                if isinstance(images, ImageSet):
                    inputs = images.take(some, channels=self.channels, standardise=self.standardise)
                else:
                    inputs = images.take(some)
                made.append(self._encode(images, inputs.to(device)).cpu())
        return torch.cat(made)

    def _encode(self, images: LabelledSet, inputs: Tensor) -> Tensor:
        try:
            features: Tensor = self.encoder(inputs)
        except RuntimeError as error:
            reason = str(error).splitlines()[0]
            raise InputError(
                f"the encoder cannot read {images.name}/{images.split}, whose images are "
                f"{list(inputs.shape[1:])}: {reason}; load the set in the size the encoder was made for"
            ) from error
        if features.shape[1] != self.n_features:
            raise InputError(
                f"the encoder makes {features.shape[1]} features of {images.name}/{images.split}, "
                f"{self.n_features} of the images it was made for: load the set in their size"
            )
        return features


def given_embedding(method: str, given: Embedding | Learner | str | Path | None) -> Embedding:
    """The encoder that a method of this name was given, or whose learner it was given."""
    if given is None:
        raise InputError(
            f"method {method!r} stands on a learner's encoder: give one (embedding=…; on the command line "
            "--embedding NAME)"
        )
    return given if isinstance(given, Embedding) else Embedding.of(given)


class BackboneEmbedding(Embedding):
    """The features of a frozen backbone, kept on disk as by `autocl features`.

    Where a set's features are there as a whole they are taken; else only those that are asked for are
    computed, because a table may need a few hundred of 60,000 images.

    Args:
        backbone: usually from `autocl.encoders.backbones.get_backbone`.
        encoder: what the backbone's features go through, such as the map of `photos`; default: nothing.
    """

    def __init__(self, backbone: Backbone, encoder: Encoder | None = None) -> None:
        super().__init__(encoder or Identity(n_features=backbone.n_features), channels=3)
        self.backbone = backbone

    def fingerprint(self) -> str:
        """Sixteen hex digits that identify weights and preprocessing."""
        own = self.backbone.fingerprint[:16]
        if isinstance(self.encoder, Identity):
            return own
        return fingerprint_of(self.encoder.state_dict(), own)

    def _start(self, images: LabelledSet) -> tuple[Tensor, Tensor]:
        whole = find_features(images, self.backbone) if isinstance(images, ImageSet) else None
        if whole is None:
            return super()._start(images)
        return self._encoded(whole), torch.ones(len(whole.features), dtype=torch.bool)

    def _compute(self, images: LabelledSet, rows: Tensor) -> Tensor:
        if not isinstance(images, ImageSet):  # the backbone's features already
            return super()._compute(images, rows)
        every = len(rows) == len(images.images)
        return self._encoded(
            compute_features(images if every else some_rows(images, rows.numpy()), self.backbone)
        )

    def _encoded(self, known: FeatureSet) -> Tensor:
        with measuring(self.encoder):
            features: Tensor = self.encoder(torch.from_numpy(known.features.astype(np.float32)))
        return features
