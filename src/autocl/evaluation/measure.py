"""Measure a subject in a setting of a protocol.

Shape legend: R = runs, S = streams of a run, M = tasks.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

import autocl
from autocl.data.catalog import CATALOG
from autocl.data.fixed import FixedStream
from autocl.data.imageset import ImageSet
from autocl.errors import AutoclError, DataError, InputError
from autocl.evaluation.harness import Taken, take_through
from autocl.evaluation.outcome import Outcome
from autocl.evaluation.protocol import Options, Protocol, Setting
from autocl.evaluation.subject import Subject
from autocl.matrix import TransferMatrix

REPLAY = "{} keeps images of earlier tasks: it uses replay, which learners and the other methods do not"
SIDE_BY_SIDE = 256
"""Most streams in one batch: 27 MB of states at the paper's size."""


class UnavailableError(AutoclError):
    """The setting cannot be had here at all, for the reason given; nothing is wrong with the subject."""


def identify(
    protocol: Protocol, setting: Setting, subject: Subject, options: Options, sets: Mapping[str, ImageSet]
) -> dict[str, Any]:
    """Everything that decides the numbers, as plain data."""
    return {
        "protocol": protocol.name,
        "setting": setting.name,
        "revision": protocol.revision,
        "subject": subject.name,
        "fingerprint": subject.fingerprint,
        "data": {key: images.hash for key, images in sets.items()},
        "runs": options.n_runs(protocol.runs),
        "seeds": "0 … runs - 1",
        "queries": options.n_queries(),
        "demos": options.demos,
        "forward": options.forward,
        "quick": options.quick,
        "autocl": autocl.__version__,
    }


def open_sets(setting: Setting, subject: Subject) -> dict[str, ImageSet]:
    """The setting's image sets in the form the subject takes; optional ones only where they exist."""
    if setting.vectors and not subject.vectors:
        raise UnavailableError("needs a learner over ready-made feature vectors (--vectors FOLDER)")
    if subject.vectors and not setting.vectors:
        raise UnavailableError("needs images; this learner takes ready-made feature vectors")
    sets = {}
    for ref in setting.sets:
        try:
            sets[ref.key] = subject.load(ref)
        except DataError as error:
            if not ref.optional:
                raise UnavailableError(f"{ref.key} is not on this machine: {error}") from error
    return sets


def measure(
    protocol: Protocol, setting: Setting, subject: Subject, options: Options, sets: Mapping[str, ImageSet]
) -> Outcome:
    """Take the subject through the setting's streams, or say why it cannot be."""
    identity = identify(protocol, setting, subject, options, sets)
    runs = identity["runs"]
    try:
        streams = [setting.streams(sets, run, options) for run in range(runs)]
        first = streams[0][0]
        if reason := subject.refusal(first):
            return refuse(setting, identity, reason)
        taken = _in_batches(subject, [s for of_run in streams for s in of_run], options)
    except InputError as error:  # data too small for the streams, or a method that cannot learn them
        return refuse(setting, identity, str(error))
    per_run = _mean_over_streams(taken, [len(s) for s in streams])
    cost = taken[0].cost
    return Outcome(
        identity=identity,
        tasks=tuple(t.name for t in first.tasks) if len(streams[0]) == 1 else _positions(first),
        matrix=per_run,
        cells={name: tuple((100 * cell(per_run)).tolist()) for name, cell in setting.cells.items()},
        notes=notes_on(subject, sets),
        incomparable=_incomparable(first, options),
        cost={
            "seconds": sum(t.seconds for t in taken) / runs,
            "examples": cost.examples,
            "gradient_steps": cost.gradient_steps,
            "state_bytes": cost.state_bytes,
        },
    )


def notes_on(subject: Subject, sets: Mapping[str, ImageSet]) -> tuple[str, ...]:
    """What a reader must know about the data and the method."""
    replay = (REPLAY.format(subject.name),) if subject.method.uses_replay else ()
    differs = subject.method.differs()
    if subject.training.sets:
        differs = f"meta-trained on {', '.join(subject.training.sets)}"
    return _notes(sets) + replay + ((f"{subject.name}: {differs}",) if differs else ())


def refuse(setting: Setting, identity: Mapping[str, Any], reason: str) -> Outcome:
    """The paper's N.A. in every cell of a setting."""
    return Outcome(identity=identity, cells=dict.fromkeys(setting.cells, ()), refused=reason)


def _in_batches(subject: Subject, streams: Sequence[FixedStream], options: Options) -> list[Taken]:
    parts = range(0, len(streams), SIDE_BY_SIDE)
    return [
        take_through(
            subject.method,
            streams[at : at + SIDE_BY_SIDE],
            seeds=range(at, min(at + SIDE_BY_SIDE, len(streams))),
            queries=options.n_queries(),
            forward=options.forward,
        )
        for at in parts
    ]


def _mean_over_streams(taken: Sequence[Taken], sizes: Sequence[int]) -> TransferMatrix:
    """[R, M, M] from the matrices of all streams in a line, `sizes` of them for each run."""
    values = torch.cat([t.matrix.values for t in taken])
    return TransferMatrix(torch.stack([part.mean(0) for part in torch.split(values, list(sizes))]))


def _notes(sets: Mapping[str, ImageSet]) -> tuple[str, ...]:
    """What is to be known about the copies of the data, each note once."""
    about: dict[str, list[str]] = {}
    for key, images in sets.items():
        if images.notes:
            about.setdefault(images.notes, []).append(key)
    return tuple(f"{', '.join(keys)}: {note}" for note, keys in about.items())


def _positions(stream: FixedStream) -> tuple[str, ...]:
    """Names of tasks that are drawn anew in every stream: the set and the position."""
    return tuple(f"{t.query_set.name} ({i + 1})" for i, t in enumerate(stream.tasks))


def _incomparable(stream: FixedStream, options: Options) -> str:
    """Why the numbers are not those of the paper's protocol."""
    if options.quick:
        return "it is a quick look"
    if options.queries is not None:
        return f"only {options.queries} queries of each task were asked"
    for images in (t.query_set for t in stream.tasks):
        have, info = len(images.images), CATALOG.get(images.name)
        official = 0 if info is None else info.test_images
        if have < official:
            return f"only {have:,} of {images.name}'s {official:,} test images are on this machine"
    return ""
