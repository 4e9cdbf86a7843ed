"""Measure entries in the settings of a protocol; what was measured before under the same identity is read.

`verify` measures a shipped learner again and compares it with its card: a quick look, seconds to a minute.

Shape legend: R = runs, S = streams of a run, M = tasks.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, NotRequired, TypedDict

from autocl.data.catalog import CATALOG
from autocl.data.imageset import ImageSet
from autocl.data.stream import Stream, side_by_side
from autocl.errors import DataError, InputError
from autocl.evaluation.entry import Entry, unsupported
from autocl.evaluation.protocol import Options, Protocol, Setting
from autocl.evaluation.protocols import PROTOCOLS
from autocl.evaluation.results import (
    Result,
    differences,
    metrics,
    percent,
    read_results,
    rounded,
    save_result,
    spread,
)
from autocl.matrix import TransferMatrix
from autocl.names import resolve
from autocl.passage import run_streams


def run(
    protocol: Protocol,
    entry: Entry,
    options: Options,
    folder: Path,
    *,
    as_stored: bool = False,
    plan: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> list[Result]:
    """All settings of a protocol for one entry.

    Args:
        protocol: what to measure.
        entry: of whom.
        options: how.
        folder: of results; every result is saved when it is complete, so a killed run continues.
        as_stored: only settings that have a stored line, with its runs, queries, demos and forward where
            `options` have their defaults.
        plan: measure and save nothing, only say what would be measured.
        say: is told what happens.

    Returns:
        One result for each setting; those that cannot be measured say why and are not saved.
    """
    stored = {r.key: r for r in read_results(folder, protocol.name)}
    results = []
    for setting in protocol.settings:
        if as_stored and (entry.name, setting.name) not in stored:
            continue
        known = Result(
            table=protocol.name, entry=entry.name, setting=setting.name,
            trained=entry.trained, outputs=entry.outputs, identity={}, cells={},
        )  # fmt: skip
        sets = _open(setting, entry)
        if isinstance(sets, str):
            results.append(_refused(known, setting, sets))
            continue
        old = stored.get(known.key)
        how = _as_stored(options, old) if as_stored and old else options
        known = replace(known, identity=identify(protocol, entry, how, sets), notes=_notes(entry, sets))
        changed = differences(old.identity, known.identity) if old else ""
        if old and changed:
            say(f"stale: {entry.name}, {setting.name} was made with another {changed}")
        if old and not changed:
            # What is said of an entry may be said differently each time without measuring again.
            result = replace(old, trained=known.trained, outputs=known.outputs, notes=known.notes)
        elif plan:
            last = f"; a run took {old.seconds:.0f} s the last time" if old and old.seconds else ""
            runs = known.identity["runs"]
            say(f"{protocol.name}, {setting.name}: {entry.name} would be measured, {runs} runs{last}")
            continue
        else:
            say(f"{protocol.name}, {setting.name}: measuring {entry.name}")
            result = measure(known, setting, entry, how, sets)
        if not result.unsupported and not plan:
            save_result(folder, result)
        results.append(result)
    return results


def _as_stored(options: Options, old: Result) -> Options:
    """The options with those of a stored line where they have their defaults, which say nothing."""
    names = ("runs", "queries", "demos", "forward")
    silent = [name for name in names if getattr(options, name) == getattr(Options(), name)]
    return replace(options, **{name: old.identity[name] for name in silent if name in old.identity})


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
    """Take an entry through the setting's streams; `known` is all that can be said before."""
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


def _open(setting: Setting, entry: Entry) -> dict[str, ImageSet] | str:
    """The setting's image sets in the form the entry takes, or why it cannot be measured here."""
    if reason := unsupported(entry.outputs, setting):
        return reason
    sets = {}
    for ref in setting.sets:
        try:
            sets[ref.key] = entry.load(ref)
        except DataError as error:
            return f"{ref.key} is not on this machine: {error}"
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
        other = "it uses replay, which learners and the other methods do not"
        notes.append(f"{entry.name} keeps images of earlier tasks: {other}")
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


TOLERANCE = 1.0
"""Points of accuracy. The streams are the same everywhere; another machine's rounding turns a few of the
hundreds of answers in a cell."""


class Check(TypedDict):
    """Accuracies that a learner's record states for the quick look of one table."""

    of: NotRequired[str]
    """Fingerprint of the weights that were measured."""
    table: str
    data: dict[str, str]
    """Image set -> the beginning of its content's hash."""
    cells: dict[str, float]
    """Cell -> percent, the mean over runs."""


Comparison = Literal["agrees", "differs", "other data", "not measured"]


@dataclass(frozen=True, kw_only=True)
class Compared:
    """One cell of a check."""

    cell: str
    card: float
    """Percent; likewise `now`."""
    now: float | None
    status: Comparison
    reason: str = ""


def quick_check(entry: Entry, table: str) -> Check:
    """Measure a learner in the quick look of a table, given by its name, for the learner's record."""
    measured = [r for r in _measure(entry, table) if not r.unsupported]
    data = {key: content for result in measured for key, content in result.identity["data"].items()}
    return Check(table=table, data=data, cells=_means(measured))


def verify(entry: Entry, check: Check) -> list[Compared]:
    """Measure a learner again and compare it, cell by cell, with what its record says.

    A cell agrees when it is within `TOLERANCE` points. Where the images are not those of the record, or not
    on this machine, nothing can be said of the learner.
    """
    results = _measure(entry, check["table"])
    now = _means(results)
    of_cell = {cell: result for result in results for cell in result.cells}
    compared = []
    for cell, card in check["cells"].items():
        result, found, reason = of_cell.get(cell), now.get(cell), ""
        status: Comparison = "not measured"
        if result is None:
            reason = "the table has no such cell any more"
        elif found is None:
            reason = result.unsupported
        elif others := [
            k for k, content in result.identity["data"].items() if check["data"].get(k) != content
        ]:
            status, reason = "other data", f"other images than those of the card: {', '.join(others)}"
        else:
            status = "agrees" if abs(found - card) <= TOLERANCE else "differs"
        compared.append(Compared(cell=cell, card=card, now=found, status=status, reason=reason))
    return compared


def _measure(entry: Entry, table: str) -> list[Result]:
    protocol = PROTOCOLS[resolve(table, PROTOCOLS, "table")]
    with TemporaryDirectory() as folder:  # nothing measured before counts
        return run(protocol, entry, Options(quick=True), Path(folder))


def _means(results: list[Result]) -> dict[str, float]:
    return {
        cell: round(sum(runs) / len(runs), 2)
        for result in results
        for cell, runs in result.cells.items()
        if runs
    }
