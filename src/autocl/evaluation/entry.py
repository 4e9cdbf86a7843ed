"""Entry: a learner or another method as it enters a table, and all that is needed to measure it fairly."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from autocl.baselines.base import Diet, Method, get_method, method_names, needs_of
from autocl.baselines.incontext import InContext
from autocl.data.catalog import describe
from autocl.data.imageset import ImageSet
from autocl.data.loading import padded
from autocl.errors import InputError
from autocl.evaluation.protocol import Provenance, SetRef, Setting
from autocl.files import read_tensors
from autocl.learner import Learner
from autocl.learner.config import AnyLearnerConfig, ReadoutLearnerConfig
from autocl.learner.find import display_name, learner_file
from autocl.names import resolve

Loader = Callable[[SetRef], ImageSet]
MNIST_PADDED = {"mean": (0.1000,), "std": (0.2752,)}
"""Statistics of MNIST in a frame of background, as Hsu et al. 2018 feed it to their networks."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Entry:
    """A learner or another method, with its name in tables and everything that identifies it."""

    name: str
    method: Method
    fingerprint: str
    """Changes whenever its answers may change; results of another fingerprint are never reused."""
    load: Loader
    """Image sets in the form it takes; the same object for the same set, so that features are shared."""
    outputs: int | None = None
    """Number of outputs; None: as many as a stream needs."""
    trained: Provenance = field(default_factory=Provenance)

    @property
    def learner(self) -> Learner:
        """The learner that it is; an InputError when it is another method."""
        return self.in_context.learner

    @property
    def in_context(self) -> InContext:
        """The method of a learner; an InputError when it is another."""
        if not isinstance(self.method, InContext):
            raise InputError(f"{self.name} is a method without a learner; this needs a learner")
        return self.method


def unsupported(outputs: int | None, setting: Setting) -> str:
    """Reason why so many outputs are too few for a setting's streams; empty when they suffice."""
    if outputs is not None and setting.n_outputs > outputs:
        return f"needs {setting.n_outputs} outputs, the learner has {outputs}"
    return ""


def learner_entry(learner: Learner, name: str, *, trained: Provenance | None = None) -> Entry:
    """A learner as an entry, on image sets of its size.

    Args:
        learner: the learner.
        name: in tables.
        trained: how it was meta-trained; default: nothing is known but its architecture.
    """
    config = learner.config

    def from_disk(ref: SetRef) -> ImageSet:
        images = ref.load(size=config.height, channels=1 if config.channels == 1 else None)
        if config.channels > 1 or describe(ref.name).channels == 1:
            return images
        return replace(images, notes=f"in gray for a learner of one channel; {images.notes}".rstrip("; "))

    return Entry(
        name=name,
        method=InContext(learner),
        fingerprint=learner.fingerprint(),
        load=cache(from_disk),
        outputs=None if learner.grows else config.n_classes,
        trained=trained or Provenance(architecture=architecture_of(config)),
    )


def open_learner(learner: str | Path) -> Entry:
    """A learner by its name in the zoo or its path, with what its file says of its meta-training."""
    with learner_file(learner) as file:
        _, meta = read_tensors(file, kind="learner")
        found = Learner.from_pretrained(file)
        trained = Provenance.read(meta, architecture=architecture_of(found.config))
        return learner_entry(found, display_name(file), trained=trained)


def architecture_of(config: AnyLearnerConfig) -> str:
    """A learner's parts in a few words.

    Example:
        >>> from autocl import LearnerConfig
        >>> architecture_of(LearnerConfig())
        'conv4 + srwm'
    """
    if isinstance(config, ReadoutLearnerConfig):
        return f"{config.encoder.kind} + {config.readout.kind}"
    readout = () if config.readout == "linear" else (config.readout,)
    return " + ".join((config.encoder.kind, config.mixer, *readout))


def method_entry(
    name: str, *, called: str = "", load_set: Loader | None = None, features_of: str = "", **options: Any
) -> Entry:
    """A method of the registry as an entry, on images in the form its authors used.

    Args:
        name: see `autocl.baselines.base.method_names`.
        called: its name in tables, where several of its kind stand in one.
        load_set: where image sets come from.
        features_of: the learner whose encoder it stands on, for its name in tables.
        **options: of the method, e.g. `diet="demos"`.
    """
    method, called = get_method(name, **options), called or name
    settings = method.settings()
    identity = {"method": name, "framing": method.framing, **settings}
    if method.side_by_side == 1:
        identity["one run at a time"] = True
    facts = [f"features of {features_of}"] if features_of else []
    facts += [f"{options['diet']} diet"] if "diet" in options else []
    return Entry(
        name=f"{called} ({', '.join(facts)})" if facts else called,
        method=method,
        fingerprint=sha256(json.dumps(identity, sort_keys=True, default=str).encode()).hexdigest()[:16],
        load=cache(load_set or (lambda ref: _framed(ref, method))),
        trained=Provenance(recipe=name, train_on=str(settings.get("diet", "demos"))),
    )


def _framed(ref: SetRef, method: Method) -> ImageSet:
    """Images of 32 pixels a side; MNIST in a frame of background for methods made for that."""
    if ref.name == "mnist" and method.framing == "padded":
        return padded(ref.load(size=28), 32, **MNIST_PADDED)
    return ref.load()


def find_methods(
    names: Sequence[str],
    *,
    diet: Diet | None = None,
    encoder: Entry | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> list[Entry]:
    """Methods by name; "all" means all that can be made from what was given, and says which cannot.

    Args:
        names: as in the registry, or "all".
        diet: what they are fed; default: each its own.
        encoder: the learner whose encoder and images methods on frozen features use.
        say: is told what is left out.
    """
    entries = []
    known = method_names()
    for name in known if "all" in names else [resolve(n, known, "method") for n in names]:
        options: dict[str, Any] = {} if diet is None else {"diet": diet}
        if "vit" in needs_of(name) and "all" in names:
            say(f"without {name}: it works inside a vision transformer, give one with --backbone vit:FILE")
            continue
        if "encoder" in needs_of(name):
            if encoder is None and "all" in names:
                say(f"without {name}: it stands on a learner's encoder, give one with --embedding NAME")
                continue
            if encoder is not None:
                options |= {
                    "embedding": encoder.in_context.features, "load_set": encoder.load,
                    "features_of": encoder.name,
                }  # fmt: skip
        entries.append(method_entry(name, **options))
    return entries
