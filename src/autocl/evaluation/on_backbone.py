"""Entries behind a frozen backbone: learners of vectors, and statistics on the same features."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from autocl import zoo
from autocl.baselines.base import Diet, needs_of
from autocl.baselines.embedding import BackboneEmbedding
from autocl.baselines.incontext import InContext
from autocl.data.imageset import ImageSet
from autocl.data.loading import load
from autocl.encoders.backbones import get_backbone
from autocl.errors import AutoclError, InputError
from autocl.evaluation.entry import Entry, Loader, method_entry, open_learner
from autocl.evaluation.protocol import Protocol, SetRef
from autocl.learner.find import find_learner

EMBEDDED = ("lite0", "lite2", "photos")
"""Backbones measured when none is named, where they are installed; "photos" is the one of that learner with
its map behind it, so that statistics get the same features as the learner."""

VIT = "vit:"
Options = Mapping[str, Any]
PROMPTS: Mapping[str, Options] = {"l2p": {}, "dualprompt": {}}
"""Measured, too, where the backbone is a vision transformer of ours."""
STATISTICS: Mapping[str, Options] = {
    "nearest-mean": {}, "shrunk-lda": {}, "ridge": {"penalty": 0.3}, "ranpac": {}, "knn": {},
}  # fmt: skip
"""Methods measured when none is named, with their options. λ of ridge regression was chosen on validation
classes for unit features and 15 shots (DESIGN, fact 9)."""
SIZED = {"ranpac": "units"}
"""Methods that may be named with a size, as `ranpac@2000`, and the option that it sets."""


def backbone_entries(
    backbones: Sequence[str] = (),
    *,
    learners: Sequence[str] = (),
    methods: Mapping[str, Options] | None = None,
    diet: Diet | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> list[Entry]:
    """Learners and methods behind each of the backbones; an InputError when none of them can be.

    Args:
        backbones: by name; default: the embedded ones that are installed.
        learners: of vectors, by name or path.
        methods: with their options; a name may carry a size (`sized`).
        diet: what methods are fed of each task; default: each its own.
        say: is told what is left out, and why.
    """
    opened = [open_learner(name) for name in learners]
    entries: list[Entry] = []
    left_out: list[str] = []
    for name in backbones or EMBEDDED:
        try:
            embedding = embedding_of(name)
        except AutoclError as reason:
            if backbones:
                raise
            left_out.append(f"without {name}: {reason}")
            continue
        load_set = cache(_images)
        for entry in opened:
            if why := _unfit(entry, embedding):
                left_out.append(why)
            else:
                entries.append(_behind(entry, embedding, name, load_set))
        how: dict[str, Any] = {} if diet is None else {"diet": diet}
        how |= {"load_set": load_set, "features_of": title(name)}
        for called, options in (methods or {}).items():
            method, size = sized(called)
            inside = "vit" in needs_of(method)
            if inside and not name.startswith(VIT):
                left_out.append(f"{method} works inside a vision transformer, not on {name}: vit:FILE")
                continue
            given = {"vit": name.removeprefix(VIT)} if inside else {"embedding": embedding}
            entries.append(method_entry(method, called=called, **options, **size, **given, **how))
    if not entries:
        raise InputError(f"nothing can be measured behind a backbone ({'; '.join(left_out)})")
    for line in left_out:
        say(line)
    return entries


def find_backbone_entries(
    protocol: Protocol, backbones: Sequence[str], learners: Sequence[str], methods: Sequence[str], **how: Any
) -> list[Entry]:
    """`backbone_entries` from the words of a command line: methods by name, with the options of the table.

    Without learners and methods: all learners of vectors in the zoo and all statistics of the table, and the
    prompt methods where a backbone is a vision transformer of ours.
    """
    usual = dict(protocol.statistics or STATISTICS)
    if any(name.startswith(VIT) for name in backbones):
        usual |= PROMPTS
    if not learners and not methods:
        learners = [name for name in zoo.names() if find_learner(name).takes_vectors]
        methods = ("all",)
    named = usual if "all" in methods else {name: usual.get(name, {}) for name in methods}
    return backbone_entries(backbones, learners=learners, methods=named, **how)


def sized(called: str) -> tuple[str, Options]:
    """A method's name and the option that a size behind it sets.

    Example:
        >>> sized("ranpac@2000"), sized("ridge")
        (('ranpac', {'units': 2000}), ('ridge', {}))
    """
    method, at, size = called.partition("@")
    if not at:
        return method, {}
    if method not in SIZED or not size.isdecimal():
        known = ", ".join(f"{name}@NUMBER" for name in SIZED)
        raise InputError(f"there is no method {called!r}: only {known} takes a size")
    return method, {SIZED[method]: int(size)}


def embedding_of(name: str) -> BackboneEmbedding:
    """A backbone's features; of a learner in the zoo that stands behind one: what it makes of them."""
    if name not in zoo.names():
        return BackboneEmbedding(get_backbone(name))
    entry = open_learner(name)
    if not entry.trained.backbone:
        raise InputError(f"{name} does not stand behind a backbone: name one, such as lite2")
    return BackboneEmbedding(get_backbone(entry.trained.backbone), entry.learner.encoder)


def title(backbone: str) -> str:
    """A backbone's name in tables: of a file only its name.

    Example:
        >>> title("vit:/home/me/small.safetensors"), title("lite2")
        ('vit:small.safetensors', 'lite2')
    """
    source, colon, what = backbone.partition(":")
    return f"{source}:{Path(what).name}" if source in ("vit", "onnx") and colon else backbone


def _images(ref: SetRef) -> ImageSet:
    return load(ref.name, ref.split, **dict(ref.options))


def _unfit(entry: Entry, embedding: BackboneEmbedding) -> str:
    """Reason why a learner cannot stand behind a backbone; empty when it can."""
    learner, backbone = entry.learner, embedding.backbone
    if not learner.takes_vectors:
        return f"{entry.name} reads images, not features: behind a backbone name a learner of vectors"
    if learner.any_length:
        return ""
    length = learner.config.channels
    if entry.trained.backbone not in ("", backbone.name) or length != backbone.n_features:
        made = entry.trained.backbone or f"{length} features"
        return f"{entry.name} was meta-trained on {made}, not on {backbone.name}"
    return ""


def _behind(entry: Entry, embedding: BackboneEmbedding, named: str, load_set: Loader) -> Entry:
    """A learner of vectors behind a backbone."""
    learner = entry.learner
    if learner.any_length:
        fitting = learner.with_features(embedding.n_features)
    else:
        fitting, embedding = learner, BackboneEmbedding(embedding.backbone, learner.encoder)
    text = f"{entry.fingerprint} {embedding.fingerprint()}"
    return replace(
        entry,
        name=f"{entry.name} (features of {title(named)})",
        method=InContext(fitting, embedding),
        fingerprint=hashlib.sha256(text.encode()).hexdigest()[:16],
        load=load_set,
    )
