"""Recipe: one complete, typed configuration of a meta-training run.

A recipe says everything that decides the result: data, streams, learner, objective, optimiser, seed. It is
saved beside the run, and a run is resumed with the recipe it was started with, or not at all.
"""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from autocl.data.augment import Augment
from autocl.data.stream_config import RandomShapes, StreamConfig
from autocl.errors import FileError, InputError
from autocl.learner.config import LearnerConfig, config_from_dict
from autocl.objective import ObjectiveConfig

FILE_NAME = "recipe.json"


@dataclass(frozen=True, kw_only=True)
class Source:
    """An image set to meta-train on; its training classes are used, its validation classes validate."""

    name: str
    """As in `autocl data list`, or the path of your own folder that holds one folder of images per class."""
    rotations: bool = False
    """omniglot: quarter turns are classes of their own."""
    statistics: Literal["default", "paper"] = "default"
    """paper: normalise as the authors' code does, also where that is inconsistent (omniglot)."""
    classes: int = 2000
    """glyphs: how many to draw; they are endless."""
    augment: Augment = field(default_factory=Augment)
    """Changes to training images; none is the paper."""

    @property
    def title(self) -> str:
        """In logs: the name, or that of your folder."""
        return Path(self.name).name

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
    rule: Literal["objective", "average", "learned", "paper"] = "objective"
    """average: mean accuracy over all tasks behind the last one, so that forgetting counts. learned: mean of
    each task's accuracy right after it was learned. paper: the same, the sets always in one order, as the
    authors select (SPEC §3.6). objective: average with backward terms, learned without; a learner that is not
    trained to remember must not be chosen for happening to."""
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
    streams: StreamConfig | RandomShapes
    learner: LearnerConfig
    objective: ObjectiveConfig = field(default_factory=ObjectiveConfig)
    optimiser: Optimiser = field(default_factory=Optimiser)
    validation: Validation = field(default_factory=Validation)
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
    """A learner to start from (meta-finetuning): its name in the zoo or its path. The number of classes may
    differ."""
    bf16: bool = False
    """Encode in bfloat16 (CPUs with AVX-512-BF16 or AMX, GPUs); the recurrence stays in float32."""
    compile_encoder: bool = False
    """torch.compile the encoder."""

    def __post_init__(self) -> None:
        self._check_ranges()
        if not self.sources:
            raise InputError(f"recipe {self.name}: name at least one image set in sources")
        weights = self.objective.own_weights
        if weights and len(weights) != len(self.sources):
            raise InputError(
                f"recipe {self.name}: objective.own_weights {weights} must be empty or have one weight for "
                f"each of its {len(self.sources)} image sets"
            )
        if self.streams.n_outputs > self.learner.n_classes:
            raise InputError(
                f"recipe {self.name}: its streams have {self.streams.n_outputs} labels, but the learner only "
                f"{self.learner.n_classes} outputs; raise learner.n_classes"
            )

    def _check_ranges(self) -> None:
        at_least: dict[str, tuple[float, float]] = {
            "steps": (self.steps, 1),
            "batch_size": (self.batch_size, 1),
            "seed": (self.seed, 0),
            "prototype": (self.prototype, 0),
            "prototype_until": (self.prototype_until, 0),
            "carry_state": (self.carry_state, 0),
            "optimiser.lr": (self.optimiser.lr, 0),
            "optimiser.warmup": (self.optimiser.warmup, 0),
            "optimiser.clip": (self.optimiser.clip, 0),
            "optimiser.accumulate": (self.optimiser.accumulate, 1),
            "validation.every": (self.validation.every, 1),
            "validation.batches": (self.validation.batches, 1),
            "validation.patience": (self.validation.patience, 0),
        }
        for name, (value, least) in at_least.items():
            if not value >= least:
                raise InputError(f"recipe {self.name}: {name} must be at least {least:g}, got {value}")

    @property
    def rule(self) -> str:
        """How its checkpoints are compared: average, learned or paper."""
        if self.validation.rule != "objective":
            return self.validation.rule
        return "average" if self.objective.acl else "learned"

    @property
    def augments(self) -> list[Augment]:
        """Of each source."""
        return [source.augment for source in self.sources]

    def prototype_weight(self, step: int) -> float:
        """Weight of the prototype loss at a step."""
        if not self.prototype_until:
            return self.prototype
        return self.prototype * max(0.0, 1.0 - step / self.prototype_until)


def provenance(recipe: Recipe) -> dict[str, str]:
    """What the file of a learner says of its meta-training, for whoever compares it with others.

    Streams of random shape have no one number of tasks, ways or shots: these are left out.
    """
    streams = recipe.streams
    shape = {}
    if isinstance(streams, StreamConfig):
        shape = {name: str(getattr(streams, name)) for name in ("tasks", "ways", "shots")}
    return {
        "recipe": recipe.name,
        "sets": " ".join(source.title for source in recipe.sources),
        "scenario": streams.scenario,
        **shape,
        "acl": str(recipe.objective.acl).lower(),
        "validated_on": recipe.validation.split,
    }


def differences(ours: Recipe, theirs: Recipe) -> list[str]:
    """Fields in which two recipes differ, as "name: ours, not theirs"; nested fields by their path.

    Example:
        >>> from autocl.recipes import get_recipe
        >>> from dataclasses import replace
        >>> quick = get_recipe("quick")
        >>> differences(replace(quick, seed=3), quick)
        ['seed: 3, not 1']
    """
    a, b = _flat(recipe_to_dict(ours)), _flat(recipe_to_dict(theirs))
    names = [*a, *(n for n in b if n not in a)]
    return [f"{n}: {a.get(n)}, not {b.get(n)}" for n in names if a.get(n) != b.get(n)]


def recipe_to_dict(recipe: Recipe) -> dict[str, Any]:
    """Plain data for JSON; `recipe_from_dict` is its inverse."""
    return {**asdict(recipe), "streams_kind": type(recipe.streams).__name__}


def source_from_dict(values: dict[str, Any]) -> Source:
    """The inverse of `dataclasses.asdict`."""
    return Source(**{**values, "augment": Augment(**values["augment"])})


def recipe_from_dict(values: dict[str, Any]) -> Recipe:
    """Read back what `recipe_to_dict` wrote."""
    values = dict(values)
    kind = {"StreamConfig": StreamConfig, "RandomShapes": RandomShapes}[values.pop("streams_kind")]
    nested = {
        "sources": tuple(source_from_dict(s) for s in values["sources"]),
        "streams": kind(**values["streams"]),
        "learner": config_from_dict(values["learner"]),
        "objective": ObjectiveConfig(**_tuples(values["objective"])),
        "optimiser": Optimiser(**_tuples(values["optimiser"])),
        "validation": Validation(**values["validation"]),
    }
    return Recipe(**{**values, **nested})


def read_recipe(folder: Path) -> Recipe:
    """The recipe that the run in a folder was started with."""
    path = folder / FILE_NAME
    try:
        return recipe_from_dict(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError as error:
        raise FileError(f"{folder} is not a run: there is no {FILE_NAME} in it") from error
    except (KeyError, TypeError, ValueError) as error:
        raise FileError(f"{path}: not a recipe of this version of autocl ({error})") from error


def _tuples(values: dict[str, Any]) -> dict[str, Any]:
    """JSON has lists where frozen dataclasses have tuples."""
    return {name: tuple(v) if isinstance(v, list) else v for name, v in values.items()}


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested dictionaries as one, names joined by dots."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return flat
