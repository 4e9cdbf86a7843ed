"""Recipe: one complete, typed configuration of a meta-training run.

A recipe says everything that decides the result: data, streams, learner, objective, optimiser, seed. It is
saved beside the run, and a run is resumed with the recipe it was started with, or not at all.
"""

import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from autocl.config import Amount, Count, Natural, check, from_dict, to_dict
from autocl.data.augment import Augment
from autocl.data.catalog import describe
from autocl.data.stream_config import RandomStreamConfig, StreamConfig
from autocl.errors import FileError, InputError
from autocl.learner.config import LearnerConfig, ReadoutLearnerConfig
from autocl.objective import ObjectiveConfig
from autocl.typed_json import read_json

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
    classes: Count = 2000
    """glyphs: how many to draw; they are endless."""
    augment: Augment = field(default_factory=Augment)
    """Changes to training images; none is the paper."""
    images: Natural = 0
    """Most images of each class, the first of its file; 0: all. For features, which cost time to compute."""

    def __post_init__(self) -> None:
        check(self)

    @property
    def title(self) -> str:
        """Name in logs: the set's, or that of your folder."""
        return Path(self.name).name

    def options(self, split: str) -> dict[str, Any]:
        """Arguments for `autocl.data.load`, for the training or validation split."""
        info = describe(self.name)
        own = {"rotations": self.rotations, "classes": self.classes}
        chosen = {name: value for name, value in own.items() if name in info.options}
        chosen = {**chosen, **info.training_options}
        if split != "train":
            chosen = dict(info.validation_options(chosen))
        return {**chosen, "statistics": self.statistics}


@dataclass(frozen=True, kw_only=True)
class Optimiser:
    """Adam, and how its learning rate moves."""

    retired: ClassVar[dict[str, Any]] = {"accumulate": 1}

    lr: Amount = 1e-3
    """Peak of "cosine", value of "constant"; "transformer" ignores it."""
    schedule: Literal["constant", "transformer", "cosine"] = "constant"
    """transformer: the paper's width^-0.5 · min(s^-0.5, s · warmup^-1.5). cosine: linear warm-up, then half a
    cosine down to zero at the last step."""
    warmup: Natural = 0
    """Steps."""
    betas: tuple[float, float] = (0.9, 0.995)
    eps: float = 1e-9
    clip: Amount = 0.0
    """Largest norm of the gradient; 0 does not clip (the paper)."""

    def __post_init__(self) -> None:
        check(self)

    def rate(self, step: int, *, steps: int, width: int) -> float:
        """Learning rate of a step.

        Args:
            step: from 0.
            steps: length of the run.
            width: the model's, for the "transformer" schedule.

        Example:
            >>> paper = Optimiser(schedule="transformer", warmup=5000)
            >>> round(paper.rate(4999, steps=600_000, width=256), 7)
            0.0008839
        """
        s = step + 1
        if self.schedule == "transformer":
            warmup = max(self.warmup, 1)
            return float(width**-0.5 * min(s**-0.5, s * warmup**-1.5))
        rise = min(1.0, s / self.warmup) if self.warmup else 1.0
        if self.schedule == "constant":
            return self.lr * rise
        return self.lr * rise * 0.5 * (1.0 + math.cos(math.pi * step / steps))


@dataclass(frozen=True, kw_only=True)
class Validation:
    """Selection of checkpoints, never on a test split."""

    retired: ClassVar[dict[str, Any]] = {"patience": 0}

    every: Count = 100
    """Steps between validations; also before the first step."""
    batches: Count = 4
    """Batches of streams over the validation classes."""
    rule: Literal["objective", "average", "learned", "paper"] = "objective"
    """average: mean accuracy over all tasks behind the last one, so that forgetting counts. learned: mean of
    each task's accuracy right after it was learned. paper: the same, the sets always in one order, as the
    authors select. objective: average with backward terms, learned without, so that selection does not
    favour checkpoints that forget less by chance."""
    split: Literal["", "mnist", "fashion_mnist", "cifar10"] = ""
    """Instead of validation classes: the Split-X stream over 5,000 held-out *training* images of a target
    domain, as the paper selects its meta-finetuned learners. A learner so chosen must say so."""

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One complete run, of one stage or of several."""

    name: str
    sources: tuple[Source, ...]
    streams: StreamConfig | RandomStreamConfig
    learner: LearnerConfig | ReadoutLearnerConfig
    backbone: str = ""
    """A frozen network (see `autocl.encoders.backbones`) whose features, computed once, take the place of
    images; the learner's encoder is then "identity". Empty: images."""
    objective: ObjectiveConfig = field(default_factory=ObjectiveConfig)
    optimiser: Optimiser = field(default_factory=Optimiser)
    validation: Validation = field(default_factory=Validation)
    steps: Count = 1000
    batch_size: Count = 32
    """Streams a step, over all ranks."""
    seed: Natural = 1
    """Seed of all stages."""
    prototype: Amount = 0.0
    """Weight of the prototype loss on the encoder's features; 0 is the paper."""
    carry_state: Natural = 0
    """Batches over which the state is handed on, without gradient, before streams start afresh; 0 never."""
    init_from: str = ""
    """A learner to start from: its name in the zoo or its path. The number of classes may differ."""
    finetune: bool = False
    """It finetunes a learner: without stages or `init_from` it does not start."""
    bf16: bool = False
    """Encode in bfloat16 and, on CPUs, take the products of dense layers in it, where the machine has
    instructions for it (CPUs with AVX-512-BF16 or AMX, GPUs); elsewhere nothing happens. The recurrence,
    read-outs, weights and optimiser stay in float32, and so does every learner when it is used."""
    stages: tuple["Recipe", ...] = ()
    """Recipes to run before, one after the other, each in a folder of its own; each stage, and at last this
    recipe itself, starts from the best learner of the stage before it."""

    def __post_init__(self) -> None:
        check(self)
        if not self.sources:
            raise InputError(f"recipe {self.name}: name at least one image set in sources")
        if self.backbone and (
            self.learner.encoder.kind != "identity" or any(a != Augment() for a in self.augments)
        ):
            raise InputError(
                f"recipe {self.name}: behind backbone {self.backbone!r} a learner reads features: its "
                "encoder is 'identity', and no source is augmented"
            )
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
        if nested := [stage.name for stage in self.stages if stage.stages]:
            raise InputError(
                f"recipe {self.name}: its stages {nested} have stages of their own; list all in one"
            )
        if self.stages and self.init_from:
            raise InputError(
                f"recipe {self.name} starts from its stages: --init-from {self.init_from} would be ignored; "
                "give it to the recipe of the last stage instead"
            )

    @property
    def rule(self) -> str:
        """The rule by which checkpoints are compared: average, learned or paper."""
        if self.validation.rule != "objective":
            return self.validation.rule
        return "average" if self.objective.acl else "learned"

    @property
    def augments(self) -> list[Augment]:
        """Augmentation of each source."""
        return [source.augment for source in self.sources]

    @property
    def all_stages(self) -> tuple["Recipe", ...]:
        """Every stage in order, the last of which is the recipe itself, all with its seed."""
        earlier = (replace(stage, seed=self.seed, finetune=False) for stage in self.stages)
        return (*earlier, replace(self, stages=(), finetune=self.finetune and not self.stages))


def provenance(recipe: Recipe) -> dict[str, str]:
    """Metadata for a learner's file: how it was meta-trained, for fair comparison with others.

    Streams of random shape have no one number of tasks, ways or shots: these are left out.
    """
    streams, objective = recipe.streams, recipe.objective
    shape = {}
    if isinstance(streams, StreamConfig):
        shape = {name: str(getattr(streams, name)) for name in ("tasks", "ways", "shots")}
    return {
        "recipe": recipe.name,
        "sets": " ".join(source.title for source in recipe.sources),
        "scenario": streams.scenario,
        **shape,
        "acl": str(objective.acl and objective.boundaries == "every").lower(),
        "validated_on": recipe.validation.split,
        **({"backbone": recipe.backbone} if recipe.backbone else {}),
    }


def differences(ours: Recipe, theirs: Recipe) -> dict[str, str]:
    """Fields in which two recipes differ, as "ours, not theirs"; nested fields by their path.

    Example:
        >>> from autocl.recipes import get_recipe
        >>> quick = get_recipe("quick")
        >>> differences(replace(quick, seed=3), quick)
        {'seed': '3, not 1'}
    """
    a, b = flat(to_dict(ours)), flat(to_dict(theirs))
    names = [*a, *(n for n in b if n not in a)]
    return {n: f"{a.get(n)}, not {b.get(n)}" for n in names if a.get(n) != b.get(n)}


def read_recipe(folder: Path) -> Recipe:
    """The recipe that the run in a folder was started with."""
    path = folder / FILE_NAME
    if not path.is_file():
        raise FileError(f"{folder} is not a run: there is no {FILE_NAME} in it")
    try:
        return from_dict(Recipe, read_json(path, dict[str, Any]))
    except InputError as error:
        raise FileError(f"{path}: not a recipe of this version of autocl ({error})") from error


def flat(value: Any, prefix: str = "") -> dict[str, Any]:
    """Nested dictionaries, and lists of them, as one; names joined by dots.

    Example:
        >>> flat({"streams": {"tasks": 2}, "sources": [{"name": "glyphs"}], "steps": 5})
        {'streams.tasks': 2, 'sources.0.name': 'glyphs', 'steps': 5}
    """
    if isinstance(value, list) and value and all(isinstance(part, dict) for part in value):
        value = {str(i): part for i, part in enumerate(value)}
    if not isinstance(value, dict):
        return {prefix.rstrip("."): value}
    found: dict[str, Any] = {}
    for name, part in value.items():
        found |= flat(part, f"{prefix}{name}.")
    return found
