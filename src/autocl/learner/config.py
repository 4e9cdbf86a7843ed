"""LearnerConfig: everything that determines a learner, apart from its weights."""

from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

from autocl.encoders import EncoderConfig
from autocl.errors import InputError

Mixer = Literal["srwm", "delta", "linear", "attention", "lstm", "srmixer"]


@dataclass(frozen=True, kw_only=True)
class LearnerConfig:
    """Architecture of a learner. The defaults are the paper's model at 5 ways.

    Example:
        >>> LearnerConfig(n_classes=10).model_width
        256
    """

    n_classes: int = 5
    """N, outputs; the label input has one more value, "unknown"."""
    channels: int = 3
    height: int = 32
    width: int = 32
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    mixer: Mixer = "srwm"
    """What carries the state: the paper's srwm; a rival under the same objective; or srmixer, the
    self-referential MLP-mixer, which takes the place of the encoder, too (encoder.kind "patches")."""
    model_width: int = 256
    heads: int = 16
    depth: int = 2
    """Pairs of mixer and feed-forward sublayers (lstm: layers, without feed-forward)."""
    ff_factor: int = 2
    """Inner width of the feed-forward block, in units of model_width."""
    dropout: float = 0.1
    norm: Literal["skip", "pre"] = "skip"
    """srwm: LayerNorm on the skip path (the paper's) or before the recurrence."""
    softmax_input: bool = False
    """srwm: softmax over each head's input."""
    shared_rate: bool = False
    """srwm: one learning rate for all blocks instead of four."""
    label_scale: float = 1.0
    """Factor on the label columns of the input projection at initialisation. Labels are few beside the
    features; 10 ends the plateau at the start of meta-training (docs: lab notebook)."""
    labels: Literal["synchronous", "delayed"] = "synchronous"
    """delayed: the label of demo t enters with demo t+1, and a prediction is made at every step."""
    readout: Literal["linear", "ridge", "kernel"] = "linear"
    """What answers beside the linear head; not in the paper. ridge: regression on keys made by a network
    (`NetworkReadout`). kernel: on keys that approximate a Gaussian kernel (`KernelReadout`)."""
    readout_keys: int = 128
    """ridge, kernel: size of the keys; the state grows with its square."""
    readout_hidden: int = 0
    """ridge: hidden units of the network that makes the keys; 0 makes them linear in the features."""

    def __post_init__(self) -> None:
        sizes = ("n_classes", "channels", "height", "width", "model_width", "heads", "depth", "ff_factor")
        for name in sizes:
            if getattr(self, name) < 1:
                raise InputError(f"LearnerConfig.{name} must be at least 1, got {getattr(self, name)}")
        if not 0 <= self.dropout < 1:
            raise InputError(f"LearnerConfig.dropout is a rate in [0, 1), got {self.dropout}")
        if (self.mixer == "srmixer") != (self.encoder.kind == "patches"):
            raise InputError(
                f"mixer {self.mixer!r} with encoder {self.encoder.kind!r}: mixer 'srmixer' "
                "and the encoder 'patches' go together, and with nothing else"
            )
        if self.readout_keys < 2 or self.readout_hidden < 0:
            raise InputError(
                "LearnerConfig.readout_keys must be at least 2 and readout_hidden at least 0, got "
                f"{self.readout_keys} and {self.readout_hidden}"
            )

    def unusual(self) -> dict[str, Any]:
        """The settings that differ from the defaults, as plain values."""
        usual, mine = asdict(LearnerConfig()), asdict(self)
        return {name: value for name, value in mine.items() if value != usual[name]}


def config_from_dict(values: dict[str, Any]) -> LearnerConfig:
    """The inverse of `dataclasses.asdict`; unknown fields are named."""
    known = {f.name for f in fields(LearnerConfig)}
    if unknown := set(values) - known:
        raise InputError(f"unknown learner settings {sorted(unknown)}: written by a newer autocl? Upgrade it")
    return LearnerConfig(**{**values, "encoder": EncoderConfig(**values["encoder"])})
