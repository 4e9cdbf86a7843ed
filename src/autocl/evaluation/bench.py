"""Measure entries in the settings of a protocol; what was measured before under the same identity is read.

Shape legend: R = runs, S = streams of a run, M = tasks.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from autocl.data.catalog import CATALOG
from autocl.data.imageset import ImageSet
from autocl.data.stream import Stream, side_by_side
from autocl.errors import AutoclError, DataError, InputError
from autocl.evaluation.entry import Entry, unsupported
from autocl.evaluation.protocol import Options, Protocol, Setting
from autocl.evaluation.results import Result, differences, percent, read_results, rounded, save_result, spread
from autocl.evaluation.statistics import metrics
from autocl.matrix import TransferMatrix
from autocl.passage import run_streams

REPLAY = "{} keeps images of earlier tasks: it uses replay, which learners and the other methods do not"


def run(
    protocol: Protocol,
    entry: Entry,
    options: Options,
    folder: Path,
    *,
    say: Callable[[str], None] = lambda _: None,
) -> list[Result]:
    """All settings of a protocol for one entry.

    Args:
        protocol: what to measure.
        entry: of whom.
        options: how.
        folder: of results; every result is saved when it is complete, so a killed run continues.
        say: is told what happens.

    Returns:
        One result for each setting; those that cannot be measured say why and are not saved.
    """
    stored = {r.key: r for r in read_results(folder, protocol.name)}
    results = []
    for setting in protocol.settings:
        known = Result(
            table=protocol.name, entry=entry.name, setting=setting.name,
            trained=entry.trained, outputs=entry.outputs, identity={}, cells={},
        )  # fmt: skip
        try:
            sets = _open(setting, entry)
        except _UnsupportedError as reason:
            results.append(_refused(known, setting, str(reason)))
            continue
        known = replace(known, identity=identify(protocol, entry, options, sets), notes=_notes(entry, sets))
        old = stored.get(known.key)
        changed = differences(old.identity, known.identity) if old else ""
        if old and changed:
            say(f"measuring again: {entry.name}, {setting.name} was made with another {changed}")
        if old and not changed:
            # What is said of an entry may be said differently each time without measuring again.
            result = replace(old, trained=known.trained, outputs=known.outputs, notes=known.notes)
        else:
            say(f"{protocol.name}, {setting.name}: measuring {entry.name}")
            result = measure(known, setting, entry, options, sets)
        if not result.unsupported:
            save_result(folder, result)
        results.append(result)
    return results


def identify(
    protocol: Protocol, entry: Entry, options: Options, sets: Mapping[str, ImageSet]
) -> dict[str, Any]:
    """Everything beside names that decides the numbers, as plain data.

    Not the version of autocl: what changes numbers raises the protocol's revision or changes a fingerprint.
    """
    return {
        "revision": protocol.revision,
        "fingerprint": entry.fingerprint,
        "data": {key: images.hash[:16] for key, images in sets.items()},
        "runs": options.n_runs(protocol.runs),
        "queries": options.n_queries(),
        "demos": options.demos,
        "forward": options.forward,
        "quick": options.quick,
    }


def measure(
    known: Result, setting: Setting, entry: Entry, options: Options, sets: Mapping[str, ImageSet]
) -> Result:
    """Take an entry through the setting's streams.

    Args:
        known: all that can be said before.
        setting: what to measure.
        entry: of whom.
        options: how.
        sets: those of the setting.
    """
    runs = known.identity["runs"]
    try:
        of_run = [setting.streams(sets, run, options) for run in range(runs)]
        stream = side_by_side(of_run)
        passed = run_streams(entry.method, stream, queries=options.n_queries(), forward=options.forward)
    except InputError as error:  # data too small for the streams, or a method that cannot learn them
        return _refused(known, setting, str(error))
    M = passed.matrix.tasks
    matrix = TransferMatrix(passed.matrix.values.view(runs, -1, M, M).mean(1))
    return replace(
        known,
        tasks=_names(stream, drawn=len(stream) > runs),
        matrix=rounded(matrix.mean()),
        metrics={name: spread(s) for name, s in metrics(matrix).items()} if M > 1 else {},
        cells={name: percent(cell(matrix).tolist()) for name, cell in setting.cells.items()},
        incomparable=_incomparable(stream, options),
        cost=asdict(passed.cost),
        seconds=passed.seconds / runs,
    )


class _UnsupportedError(AutoclError):
    """The setting cannot be measured with this entry or on this machine, for the reason given."""


def _open(setting: Setting, entry: Entry) -> dict[str, ImageSet]:
    """The setting's image sets in the form the entry takes."""
    if reason := unsupported(entry.outputs, setting):
        raise _UnsupportedError(reason)
    sets = {}
    for ref in setting.sets:
        try:
            sets[ref.key] = entry.load(ref)
        except DataError as error:
            raise _UnsupportedError(f"{ref.key} is not on this machine: {error}") from error
    return sets


def _refused(known: Result, setting: Setting, reason: str) -> Result:
    """The paper's N.A. in every cell of a setting."""
    return replace(known, cells=dict.fromkeys(setting.cells, ()), unsupported=reason)


def _notes(entry: Entry, sets: Mapping[str, ImageSet]) -> tuple[str, ...]:
    """Remarks on the copies of the data and on the entry, each once."""
    about: dict[str, list[str]] = {}
    for key, images in sets.items():
        if images.notes:
            about.setdefault(images.notes, []).append(key)
    notes = [f"{', '.join(keys)}: {note}" for note, keys in about.items()]
    if entry.method.uses_replay:
        notes.append(REPLAY.format(entry.name))
    differs = entry.method.deviation_note()
    if entry.trained.sets:
        differs = f"meta-trained on {', '.join(entry.trained.sets)}"
    return (*notes, f"{entry.name}: {differs}") if differs else tuple(notes)


def _names(stream: Stream, *, drawn: bool) -> tuple[str, ...]:
    """Names of the tasks; of those drawn anew in every stream, the set and the position."""
    if not drawn:
        return tuple(task.name for task in stream.tasks)
    return tuple(f"{task.sets[1].name} ({i + 1})" for i, task in enumerate(stream.tasks))


def _incomparable(stream: Stream, options: Options) -> str:
    """Reason why the numbers are not those of the paper's protocol."""
    if options.quick:
        return "it is a quick look"
    if options.queries is not None:
        return f"only {options.queries} queries of each task were asked"
    for images in (task.sets[1] for task in stream.tasks):
        have, info = int(images.starts[-1]), CATALOG.get(images.name)
        official = 0 if info is None else info.test_images
        if have < official:
            return f"only {have:,} of {images.name}'s {official:,} test images are on this machine"
    return ""
