"""Configurations of learners: everything that determines one, apart from its weights."""

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from autocl.config import Count, DropoutRate, Natural, OneOf, Range, check
from autocl.encoders import EncoderConfig
from autocl.errors import InputError
from autocl.layers.base import MIXERS
from autocl.readouts import ReadoutConfig


@dataclass(frozen=True, kw_only=True)
class InputConfig:
    """Settings common to all learners: outputs, images, encoder."""

    n_classes: Count = 5
    """N, outputs. Learners whose state can grow start with so many."""
    channels: Count = 3
    height: Count = 32
    width: Count = 32
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    standardise: Literal["image", "set"] = "set"
    """Standardisation of pixels: each image by its own mean and deviation, or all by those of their set."""

    def __post_init__(self) -> None:
        check(self)

    @property
    def takes_vectors(self) -> bool:
        """Whether ready-made vectors go in instead of images."""
        return self.encoder.kind in ("identity", "linear") and self.height == self.width == 1


@dataclass(frozen=True, kw_only=True)
class LearnerConfig(InputConfig):
    """Architecture of a fast-weight learner. The defaults are the paper's model at 5 ways.

    Example:
        >>> LearnerConfig(n_classes=10).model_width
        256
    """

    retired: ClassVar[dict[str, Any]] = {"softmax_input": False, "shared_rate": False}

    mixer: Annotated[str, OneOf(MIXERS.names)] = "srwm"
    """Layer that carries the state: the paper's srwm; another one under the same objective; or srmixer, the
    self-referential MLP-mixer, which takes the place of the encoder, too (encoder.kind "patches")."""
    model_width: Count = 256
    heads: Count = 16
    depth: Count = 2
    """Pairs of mixer and feed-forward sublayers (lstm: layers, without feed-forward)."""
    ff_factor: Count = 2
    """Inner width of the feed-forward block, in units of model_width."""
    dropout: DropoutRate = 0.1
    norm: Literal["skip", "pre"] = "skip"
    """srwm: LayerNorm on the skip path (the paper's) or before the recurrence."""
    label_scale: float = 1.0
    """Factor on the label columns of the input projection at initialisation. Labels are few beside the
    features; 10 ends the plateau at the start of meta-training (docs: lab notebook)."""
    labels: Literal["synchronous", "delayed"] = "synchronous"
    """synchronous: a demo's label enters with its image. delayed: with the next demo or query, which is then
    asked with the last label instead of "unknown"."""
    readout: Literal["linear", "ridge", "kernel"] = "linear"
    """Head beside the linear one; not in the paper. ridge: regression on keys made by a network
    (`NetworkReadout`). kernel: on keys that approximate a Gaussian kernel (`KernelReadout`)."""
    readout_keys: Annotated[int, Range(2)] = 128
    """ridge, kernel: size of the keys; the state grows with its square."""
    readout_hidden: Natural = 0
    """ridge: hidden units of the network that makes the keys; 0 makes them linear in the features."""

    def __post_init__(self) -> None:
        check(self)
        if (self.mixer == "srmixer") != (self.encoder.kind == "patches"):
            raise InputError(
                f"mixer {self.mixer!r} with encoder {self.encoder.kind!r}: mixer 'srmixer' "
                "and the encoder 'patches' go together, and with nothing else"
            )


@dataclass(frozen=True, kw_only=True)
class ReadoutLearnerConfig(InputConfig):
    """An encoder and a read-out: prototypes, GeMCL, OML, ANML, or any read-out on a frozen encoder.

    Example:
        >>> ReadoutLearnerConfig(readout=ReadoutConfig(kind="lda", shrinkage=0.5)).n_classes
        10
    """

    n_classes: Count = 10
    readout: ReadoutConfig = field(default_factory=ReadoutConfig)
    unit_features: bool = False
    """Scale every feature vector to length 1 before the read-out sees it."""


AnyLearnerConfig = LearnerConfig | ReadoutLearnerConfig
