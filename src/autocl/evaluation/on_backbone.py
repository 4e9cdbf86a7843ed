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
from autocl.evaluation.protocol import SetRef
from autocl.learner import Learner

EMBEDDED = ("lite0", "lite2")
"""Backbones measured when none is named, where they are installed."""

VIT = "vit:"
Options = Mapping[str, Any]
PROMPTS: Mapping[str, Options] = {"l2p": {}, "dualprompt": {}}
"""Measured, too, where the backbone is a vision transformer of ours."""
STATISTICS: Mapping[str, Options] = {
    "nearest-mean": {}, "shrunk-lda": {}, "ridge": {"penalty": 0.3}, "ranpac": {}, "knn": {},
}  # fmt: skip
"""Methods measured when none is named, with their options. λ of ridge regression was chosen on validation
classes for unit features and 15 shots (DESIGN, fact 9)."""


def backbone_entries(
    backbones: Sequence[str] = (),
    *,
    learners: Sequence[str] = (),
    methods: Mapping[str, Options] | None = None,
    diet: Diet | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> list[Entry]:
    """Learners and methods behind each of the backbones.

    Args:
        backbones: by name; default: the embedded ones that are installed.
        learners: of vectors, by name or path; default, without methods: those of the zoo.
        methods: with their options; default, without learners: `STATISTICS`.
        diet: what methods are fed of each task; default: each its own.
        say: is told what is left out.
    """
    everything = not learners and methods is None
    opened = [open_learner(name) for name in learners] or ([*_shipped()] if everything else [])
    chosen = STATISTICS if everything else methods or {}
    entries = []
    for name in backbones or EMBEDDED:
        try:
            embedding = BackboneEmbedding(get_backbone(name))
        except AutoclError as reason:
            if backbones:
                raise
            say(f"without {name}: {reason}")
            continue
        load_set = cache(_images)
        for entry in opened:
            if why := _unfit(entry, embedding):
                if learners and len(backbones) <= 1:
                    raise InputError(why)
                continue
            entries.append(_behind(entry, embedding, load_set))
        how: dict[str, Any] = {} if diet is None else {"diet": diet}
        how |= {"load_set": load_set, "features_of": title(name)}
        inside = PROMPTS if everything and name.startswith(VIT) else {}
        for method, options in {**chosen, **inside}.items():
            given = _network(method, name) or {"embedding": embedding}
            entries.append(method_entry(method, **options, **given, **how))
    if not entries:
        raise InputError(
            "there is no backbone to measure with: pip install autocl[photos], or --backbone NAME"
        )
    return entries


def title(backbone: str) -> str:
    """A backbone's name in tables: of a file only its name.

    Example:
        >>> title("vit:/home/me/small.safetensors"), title("lite2")
        ('vit:small.safetensors', 'lite2')
    """
    source, colon, what = backbone.partition(":")
    return f"{source}:{Path(what).name}" if source in ("vit", "onnx") and colon else backbone


def _network(method: str, backbone: str) -> dict[str, Any]:
    """The option of a method that works inside a network instead of on its features."""
    if "vit" not in needs_of(method):
        return {}
    if not backbone.startswith(VIT):
        raise InputError(f"method {method!r} works inside a vision transformer: give --backbone vit:FILE")
    return {"vit": backbone.removeprefix(VIT)}


def _images(ref: SetRef) -> ImageSet:
    return load(ref.name, ref.split, **dict(ref.options))


def _shipped() -> Sequence[Entry]:
    """Learners of the zoo that read vectors."""
    return [e for e in map(open_learner, zoo.names()) if _reads_vectors(e.learner)]


def _reads_vectors(learner: Learner) -> bool:
    c = learner.config
    return bool(c.encoder.kind == "identity" and (c.height, c.width) == (1, 1))


def _unfit(entry: Entry, embedding: BackboneEmbedding) -> str:
    """Why a learner cannot stand behind a backbone; empty when it can."""
    learner, backbone = entry.learner, embedding.backbone
    if not _reads_vectors(learner):
        return f"{entry.name} reads images, not features: behind a backbone name a learner of vectors"
    if learner.any_length:
        return ""
    if entry.trained.backbone not in ("", backbone.name) or learner.config.channels != backbone.n_features:
        made = entry.trained.backbone or f"{learner.config.channels} features"
        return f"{entry.name} was meta-trained on {made}, not on {backbone.name}"
    return ""


def _behind(entry: Entry, embedding: BackboneEmbedding, load_set: Loader) -> Entry:
    """A learner of vectors behind a backbone."""
    learner, F = entry.learner, embedding.n_features
    fitting = learner.with_features(F) if learner.any_length else learner
    text = f"{entry.fingerprint} {embedding.fingerprint()}"
    return replace(
        entry,
        name=f"{entry.name} (features of {title(embedding.backbone.name)})",
        method=InContext(fitting, embedding),
        fingerprint=hashlib.sha256(text.encode()).hexdigest()[:16],
        load=load_set,
    )


def find_backbone_entries(
    backbones: Sequence[str], learners: Sequence[str], methods: Sequence[str], **how: Any
) -> list[Entry]:
    """`backbone_entries` from the words of a command line: methods by name, with the options of the table."""
    named = {name: STATISTICS.get(name, {}) for name in methods} if methods else None
    return backbone_entries(backbones, learners=learners, methods=named, **how)
