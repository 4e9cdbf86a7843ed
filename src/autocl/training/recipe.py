"""Recipe: one complete, typed configuration of a meta-training run.

A recipe says everything that decides the result: data, streams, learner, objective, optimiser, seed. It is
saved beside the run, and its hash tells whether a resumed run is still the same run.
"""

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import tyro

from autocl.data.augment import Augment
from autocl.data.stream_config import RandomShapes, StreamConfig
from autocl.errors import InputError
from autocl.learner_config import LearnerConfig, config_from_dict
from autocl.objective import ObjectiveConfig


@dataclass(frozen=True, kw_only=True)
class Source:
    """An image set to meta-train on; its training classes are used, its validation classes validate."""

    name: str
    rotations: bool = False
    """omniglot: quarter turns are classes of their own."""
    statistics: Literal["default", "paper"] = "default"
    """paper: normalise as the authors' code does, also where that is inconsistent (omniglot)."""
    classes: int = 2000
    """glyphs: how many to draw; they are endless."""

    def options(self, split: str) -> dict[str, Any]:
        """Arguments for `autocl.data.load`, for the training or validation split."""
        match self.name:
            case "omniglot":
                return {"rotations": self.rotations, "statistics": self.statistics}
            case "tiny_imagenet":
                return {"exclude_mini_imagenet": True}
            case "glyphs":
                return {"classes": self.classes if split == "train" else max(100, self.classes // 10)}
            case _:
                return {}


@dataclass(frozen=True, kw_only=True)
class Optimiser:
    """Adam, and how its learning rate moves."""

    lr: float = 1e-3
    """Peak of "cosine", value of "constant"; "transformer" ignores it."""
    schedule: Literal["constant", "transformer", "cosine"] = "constant"
    """transformer: the paper's width^-0.5 · min(s^-0.5, s · warmup^-1.5). cosine: linear warm-up, then half a
    cosine down to zero at the last step."""
    warmup: int = 0
    """Steps."""
    betas: tuple[float, float] = (0.9, 0.995)
    eps: float = 1e-9
    clip: float = 0.0
    """Largest norm of the gradient; 0 does not clip (the paper)."""
    accumulate: int = 1
    """Batches whose gradients are averaged for one step."""


@dataclass(frozen=True, kw_only=True)
class Validation:
    """How checkpoints are compared. Never on a test split."""

    every: int = 100
    """Steps between validations; also before the first step."""
    batches: int = 4
    """Batches of streams over the validation classes."""
    rule: Literal["average", "paper"] = "average"
    """average: mean accuracy over all tasks behind the last one, so that forgetting counts. paper: mean of
    each task's accuracy right after it was learned, as the authors select (SPEC §3.6)."""
    split: Literal["", "mnist", "fashion_mnist", "cifar10"] = ""
    """Instead of validation classes: the Split-X stream over 5,000 held-out *training* images of a target
    domain, as the paper selects its meta-finetuned learners. A learner so chosen must say so."""
    patience: int = 0
    """Stop after this many validations without a better score; 0 never stops early."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One complete run."""

    name: str
    sources: tuple[Source, ...]
    streams: tyro.conf.OmitSubcommandPrefixes[StreamConfig | RandomShapes]
    learner: LearnerConfig
    objective: ObjectiveConfig = field(default_factory=ObjectiveConfig)
    optimiser: Optimiser = field(default_factory=Optimiser)
    validation: Validation = field(default_factory=Validation)
    augment: Augment | None = None
    """Changes to training images; None is the paper."""
    steps: int = 1000
    batch_size: int = 32
    """Streams a step, over all ranks."""
    seed: int = 1
    prototype: float = 0.0
    """Weight of the prototype loss on the encoder's features; 0 is the paper."""
    prototype_until: int = 0
    """Step at which that weight has fallen linearly to zero; 0 keeps it."""
    carry_state: int = 0
    """Batches over which the state is handed on, without gradient, before streams start afresh; 0 never."""
    init_from: str = ""
    """A learner file to start from (meta-finetuning); its number of classes may differ."""
    bf16: bool = False
    """Encode in bfloat16 (CPUs with AVX-512-BF16 or AMX, GPUs); the recurrence stays in float32."""
    compile_encoder: bool = False
    """torch.compile the encoder."""

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size"):
            if getattr(self, name) < 1:
                raise InputError(f"recipe {self.name}: {name} must be at least 1, got {getattr(self, name)}")
        if not self.sources:
            raise InputError(f"recipe {self.name}: name at least one image set in sources")
        if self.streams.n_outputs > self.learner.n_classes:
            raise InputError(
                f"recipe {self.name}: its streams have {self.streams.n_outputs} labels, but the learner only "
                f"{self.learner.n_classes} outputs; raise learner.n_classes"
            )

    def prototype_weight(self, step: int) -> float:
        """Weight of the prototype loss at a step."""
        if not self.prototype_until:
            return self.prototype
        return self.prototype * max(0.0, 1.0 - step / self.prototype_until)


def recipe_to_dict(recipe: Recipe) -> dict[str, Any]:
    """Plain data for JSON; `recipe_from_dict` is its inverse."""
    return {**asdict(recipe), "streams_kind": type(recipe.streams).__name__}


def recipe_from_dict(values: dict[str, Any]) -> Recipe:
    """Read back what `recipe_to_dict` wrote."""
    values = dict(values)
    kind = {"StreamConfig": StreamConfig, "RandomShapes": RandomShapes}[values.pop("streams_kind")]
    nested = {
        "sources": tuple(Source(**s) for s in values["sources"]),
        "streams": kind(**values["streams"]),
        "learner": config_from_dict(values["learner"]),
        "objective": ObjectiveConfig(**_tuples(values["objective"])),
        "optimiser": Optimiser(**_tuples(values["optimiser"])),
        "validation": Validation(**values["validation"]),
        "augment": None if values["augment"] is None else Augment(**values["augment"]),
    }
    return Recipe(**{**values, **nested})


def _tuples(values: dict[str, Any]) -> dict[str, Any]:
    """JSON has lists where frozen dataclasses have tuples."""
    return {name: tuple(v) if isinstance(v, list) else v for name, v in values.items()}
