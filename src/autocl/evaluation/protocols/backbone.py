"""Table 4: learners of vectors and statistics behind a frozen pre-trained network, and who enters it.

The original Split-CIFAR-100 stands beside it.
"""

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
from autocl.data.eval_streams import five_datasets, mini_split_cifar100, split_stream
from autocl.data.imageset import ImageSet
from autocl.data.stream import Stream
from autocl.encoders.backbones import get_backbone
from autocl.errors import AutoclError, InputError
from autocl.evaluation.entry import Entry, Loader, method_entry, open_learner
from autocl.evaluation.protocol import (
    Options,
    Protocol,
    Row,
    SetRef,
    Sets,
    Setting,
    numbers,
    one_cell,
    train_and_test,
)
from autocl.learner.find import find_learner

EMBEDDED = ("lite0", "lite2", "photos")
"""Backbones measured when none is named, where they are installed; "photos" is the one of that learner with
its map behind it, so that statistics get the same features as the learner."""

VIT = "vit:"
Settings = Mapping[str, Any]
PROMPTS: Mapping[str, Settings] = {"l2p": {}, "dualprompt": {}}
"""Measured, too, where the backbone is a vision transformer of ours."""
STATISTICS: Mapping[str, Settings] = {
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
    methods: Mapping[str, Settings] | None = None,
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
        load_set = cache(SetRef.load)
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


def sized(called: str) -> tuple[str, Settings]:
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


SHOTS = 15
CIFAR, FIVE = "Split-CIFAR-100", "5-datasets"
PARTS = {"cifar10": "CIFAR-10", "mnist": "MNIST", "fashion_mnist": "Fashion", "svhn": "SVHN",
         "notmnist": "notMNIST"}  # fmt: skip
"""Image sets of 5-datasets, in the paper's order."""


def _cifar(sets: Sets, run: int, options: Options) -> Stream:
    train, test = sets["cifar100/train"], sets["cifar100/test"]
    return mini_split_cifar100(train, test, shots=SHOTS, run=run, demos=options.demos)


def _datasets(*names: str) -> Setting:
    """5-datasets, or some of it."""

    def streams(sets: Sets, run: int, options: Options) -> Stream:
        pairs = [(sets[f"{name}/train"], sets[f"{name}/test"]) for name in names]
        return five_datasets(pairs, shots=SHOTS, run=run, demos=options.demos)

    cell = FIVE if len(names) > 1 else PARTS[names[0]]
    return one_cell(cell, train_and_test(*names), 2 * len(names), streams)


def _cifar_task(number: int) -> Setting:
    """One task of the mini Split-CIFAR-100 by itself, counted from 1."""

    def streams(sets: Sets, run: int, options: Options) -> Stream:
        whole = _cifar(sets, run, options)
        task, offset = whole.tasks[number - 1], 2 * (number - 1)
        alone = replace(task, demo_labels=task.demo_labels - offset, query_labels=task.query_labels - offset)
        return replace(whole, tasks=(alone,), n_outputs=2)

    return one_cell(f"CIFAR-100 task {number}", train_and_test("cifar100"), 2, streams)


_ALONE = "|".join([*(f"CIFAR-100 task {t}" for t in range(1, 6)), *PARTS.values()])
_STREAMS = f"{CIFAR}|{FIVE}"
BACKBONE = Protocol(
    name="backbone",
    title="Behind a frozen network: mini Split-CIFAR-100 and mini 5-datasets (Table 4)",
    position=8,
    runs=10,
    statistics=STATISTICS,
    settings=(
        one_cell(CIFAR, train_and_test("cifar100"), 10, _cifar),
        _datasets(*PARTS),
        *(_cifar_task(number) for number in range(1, 6)),
        *(_datasets(name) for name in PARTS),
    ),
    published=(
        Row(
            # Every entry stands beside it: the table asks what is made of a frozen network.
            name="ACL behind ViT-B/16",
            cells=numbers(
                f"{_STREAMS}|{_ALONE}",
                "68.3±2.0 61.5±2.1 95.9±0.9 85.6±3.6 93.4±1.4 97.0±0.7 67.6±7.0 "
                "91.3±1.2 98.9±0.3 93.5±2.0 66.1±9.4 76.3±6.7",
            ),
        ),
    ),
    references=(
        "On the original streams (all classes, all images), ViT-B/16: L2P 83.9 and 81.1, DualPrompt 86.5 and "
        "88.1 on Split-CIFAR-100 and 5-datasets; not comparable with the mini streams (the paper's stars)."
    ),
)

LAST = "10-task, last accuracy"
IMAGES, QUICK_SHOTS = 500, 20
"""Demos of each class: all that CIFAR-100 has, and those of a rough look."""


@cache
def _everything(images: ImageSet) -> ImageSet:
    """The set without a validation part: nothing is chosen on it, and all its images are shown."""
    return replace(images, order=None)


def _ten_by_ten(sets: Sets, run: int, options: Options) -> Stream:
    train, test = _everything(sets["cifar100/train"]), sets["cifar100/test"]
    shots = min(int(train.counts.min()), QUICK_SHOTS if options.quick else IMAGES)
    return split_stream(train, test, scenario="class", shots=shots, run=run, classes_per_task=10, tasks=10)


SPLIT_CIFAR100 = Protocol(
    name="split-cifar100",
    title="Split-CIFAR-100, ten tasks of ten classes, all 50,000 training images in one pass",
    position=10,
    runs=3,
    # k-NN would keep all 50,000. RanPAC's own number of random features needs a state of 404 MB; with the
    # others it has 1 MB, as `photos`, 3 MB, as `vectors`, and 17 MB.
    statistics={
        **{name: how for name, how in STATISTICS.items() if name != "knn"},
        "ranpac": {"units": 10_000},
        "ranpac@450": {},
        "ranpac@835": {},
        "ranpac@2000": {},
    },
    settings=(one_cell(LAST, train_and_test("cifar100"), 100, _ten_by_ten),),
    references=(
        "The same stream behind ViT-B/16 (ImageNet-21K): L2P 83.9 ± 0.3, DualPrompt 86.5 ± 0.3 (as the paper "
        "cites them), RanPAC 91.1 (as its authors print it). The network is another, so they stand apart."
    ),
)

PROTOCOLS = (BACKBONE, SPLIT_CIFAR100)
