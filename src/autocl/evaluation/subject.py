"""Subject: what is put to the test, and what must be known about it to do so fairly."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from autocl.baselines.base import Method, get_method
from autocl.baselines.embedding import Embedding
from autocl.baselines.incontext import InContext
from autocl.baselines.padded import padded
from autocl.data.catalog import describe
from autocl.data.fixed import FixedStream
from autocl.data.imageset import ImageSet
from autocl.data.loading import load
from autocl.errors import FileError, InputError
from autocl.files import read_tensors
from autocl.learner import Learner
from autocl.learner.find import learner_file, title_of
from autocl.recipes import RECIPES

MNIST_PADDED = {"mean": (0.1000,), "std": (0.2752,)}
"""Statistics of MNIST in a frame of background, as Hsu et al. 2018 feed it to their networks."""


@dataclass(frozen=True, kw_only=True)
class SetRef:
    """An image set by name, as a protocol asks for it."""

    name: str
    split: str
    options: Mapping[str, Any] = field(default_factory=dict)
    """For `autocl.data.load`."""
    optional: bool = False
    """A protocol can do without it (a test split that a copy of the data lacks)."""

    @property
    def key(self) -> str:
        """name/split."""
        return f"{self.name}/{self.split}"


Loader = Callable[[SetRef], ImageSet]


@dataclass(frozen=True, kw_only=True)
class Training:
    """How a subject came to be, as far as is known: decides beside which row of the paper it stands."""

    recipe: str = ""
    """Of a learner; the name of a method that is not one."""
    sets: tuple[str, ...] = ()
    """Image sets that a learner was meta-trained on; empty: unknown."""
    acl: bool = True
    """Whether the backward terms were minimised."""
    shots: int = 15
    """Demos per class."""
    validated_on: str = ""
    """The target domain whose held-out training images chose the checkpoint; empty: none."""
    diet: str = "demos"
    """What it is fed of each task: the demos, or all training images ("full")."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Subject:
    """A learner or another method, with its name in tables and everything that identifies it."""

    name: str
    method: Method
    fingerprint: str
    """Changes whenever its answers may change; results of another fingerprint are never reused."""
    load: Loader
    """Image sets in the form it takes."""
    outputs: int | None = None
    """How many it has; None: as many as a stream needs."""
    image_shape: tuple[int, int, int] | None = None
    """Channels, height, width it needs; None: any."""
    training: Training = field(default_factory=Training)
    vectors: bool = False
    """It takes ready-made feature vectors, not pixels."""

    @property
    def learner(self) -> Learner:
        """The learner that it is; an InputError when it is another method."""
        return self._in_context.learner

    @property
    def embedding(self) -> Embedding:
        """The features of the learner that it is, for other methods to use."""
        return self._in_context.features

    @property
    def _in_context(self) -> InContext:
        if not isinstance(self.method, InContext):
            raise InputError(f"{self.name} is a method without a learner; this needs a learner")
        return self.method

    def refusal(self, stream: FixedStream) -> str:
        """Why it cannot be taken through a stream; empty when it can."""
        if self.outputs is not None and stream.n_outputs > self.outputs:
            return f"needs {stream.n_outputs} outputs, the learner has {self.outputs}"
        for task in stream.tasks:
            for images in (task.demo_set, task.query_set):
                channels, *pixels = images.images.shape[1:]
                if self.image_shape is None or self.vectors:
                    continue
                if tuple(pixels) != self.image_shape[1:] or channels not in (1, self.image_shape[0]):
                    have = "×".join(map(str, images.images.shape[1:]))
                    want = "×".join(map(str, self.image_shape))
                    return f"{images.name} has images of {have}, the learner takes {want}"
        return ""


def learner_subject(
    learner: Learner,
    name: str,
    *,
    training: Training | None = None,
    load_set: Loader | None = None,
    vectors: str | Path | None = None,
) -> Subject:
    """A learner as a subject.

    Args:
        learner: the learner.
        name: in tables and folders.
        training: how it was meta-trained; default: as the paper's.
        load_set: where image sets come from; default: `autocl.data.load` at the learner's size.
        vectors: a folder with NAME-SPLIT.safetensors for each image set, the tensor "features" [n, F] in the
            order of the set's rows: what a frozen network made of the images.
    """
    config = learner.config
    cache = Embedding.of(learner)

    def from_disk(ref: SetRef) -> ImageSet:
        if vectors is not None:
            return load(ref.name, ref.split, **ref.options)
        if config.channels > 1:
            return load(ref.name, ref.split, size=config.height, **ref.options)
        images = load(ref.name, ref.split, size=config.height, channels=1, **ref.options)
        if describe(ref.name).channels == 1:
            return images
        return replace(images, notes=f"in gray for a learner of one channel; {images.notes}".rstrip("; "))

    inner = from_disk if load_set is None else load_set
    known: dict[str, ImageSet] = {}

    def sets(ref: SetRef) -> ImageSet:
        # One object for each set, so that features are shared between protocols.
        key = json.dumps([ref.name, ref.split, dict(ref.options)], sort_keys=True)
        if key not in known:
            known[key] = inner(ref)
            if vectors is not None:
                cache.put(known[key], _read_vectors(Path(vectors), ref))
        return known[key]

    fingerprint = learner.fingerprint()
    if vectors is not None:
        fingerprint += "+" + _digest(sorted((p.name, p.stat().st_size) for p in Path(vectors).iterdir()))
    return Subject(
        name=name,
        method=InContext(learner, cache),
        fingerprint=fingerprint,
        load=sets,
        outputs=None if learner.grows else config.n_classes,
        image_shape=(config.channels, config.height, config.width),
        training=Training() if training is None else training,
        vectors=vectors is not None,
    )


def method_subject(
    name: str, *, load_set: Loader | None = None, features_of: str = "", **options: Any
) -> Subject:
    """A method of the registry as a subject, on images in the form its authors used.

    Args:
        name: see `autocl.baselines.method_names`.
        load_set: where image sets come from.
        features_of: the learner whose encoder it stands on, for its name in tables.
        **options: of the method, e.g. `diet="demos"`.
    """
    method = get_method(name, **options)
    facts = [f"features of {features_of}"] if features_of else []
    facts += [f"{options['diet']} diet"] if "diet" in options else []
    known: dict[str, ImageSet] = {}

    def sets(ref: SetRef) -> ImageSet:
        key = json.dumps([ref.name, ref.split, dict(ref.options)], sort_keys=True)
        if key not in known:
            known[key] = _framed(ref, method) if load_set is None else load_set(ref)
        return known[key]

    return Subject(
        name=f"{name} ({', '.join(facts)})" if facts else name,
        method=method,
        fingerprint=_digest({"method": name, "framing": method.framing, **method.settings()}),
        load=sets,
        training=Training(recipe=name, diet=str(method.settings().get("diet", "demos"))),
    )


def open_learner(learner: str | Path, *, vectors: str | Path | None = None) -> Subject:
    """A learner by its name in the zoo or its path, with what its file or run says of its training."""
    with learner_file(learner) as file:
        _, meta = read_tensors(file, kind="learner")
        return learner_subject(
            Learner.from_pretrained(file), title_of(file), training=_training(file, meta), vectors=vectors
        )


def _training(file: Path, meta: Mapping[str, str]) -> Training:
    """From the recipe beside a run's learner, else from the file's own metadata."""
    beside = file.parent / "recipe.json"
    if beside.is_file():
        recipe = json.loads(beside.read_text(encoding="utf-8"))
        return Training(
            recipe=recipe["name"],
            sets=tuple(Path(source["name"]).name for source in recipe["sources"]),
            acl=recipe["objective"]["acl"] and recipe["objective"].get("boundaries", "every") == "every",
            shots=recipe["streams"].get("shots", 15),
            validated_on=recipe["validation"]["split"],
        )
    # Files shipped before the sets were written into them have those of their recipe.
    made = RECIPES.get(meta.get("recipe", ""))
    known = [source.title for source in made().sources] if made else []
    return Training(
        recipe=meta.get("recipe", ""),
        sets=tuple(meta["sets"].split() if "sets" in meta else known),
        acl=meta.get("acl", "true").lower() != "false",
        shots=int(meta.get("shots", "15")),
        validated_on=meta.get("validated_on", ""),
    )


def _framed(ref: SetRef, method: Method) -> ImageSet:
    """Images of 32 pixels a side; MNIST in a frame of background for methods made for that."""
    if ref.name == "mnist" and method.framing == "padded":
        return padded(load(ref.name, ref.split, size=28, **ref.options), 32, **MNIST_PADDED)
    return load(ref.name, ref.split, **ref.options)


def _read_vectors(folder: Path, ref: SetRef) -> Any:
    file = folder / f"{ref.name}-{ref.split}.safetensors"
    tensors, meta = read_tensors(file, kind="features")
    if "features" not in tensors:
        raise FileError(f"{file}: has no tensor named 'features', only {sorted(tensors)} ({meta})")
    return tensors["features"]


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:16]


def check_name(name: str) -> str:
    """A subject's name as a folder name; refuses what would leave the results folder."""
    safe = "".join(c if c.isalnum() or c in "-_." else "-" for c in name).strip("-.")
    if not safe:
        raise InputError(f"{name!r} cannot name a folder of results: use letters or digits")
    return safe
