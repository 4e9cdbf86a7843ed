"""Run protocols over subjects, keep every outcome as a file, and measure again only what is not there yet."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from autocl.errors import FileError, InputError
from autocl.evaluation.measure import UnavailableError, identify, measure, notes_on, open_sets, refuse
from autocl.evaluation.outcome import Outcome, place, read_all, staleness
from autocl.evaluation.paper import TABLES
from autocl.evaluation.protocol import Options, Protocol
from autocl.evaluation.protocols import PROTOCOLS
from autocl.evaluation.subject import Subject
from autocl.evaluation.table import Line, lines, markdown
from autocl.files import write_atomic


def run(
    protocol: Protocol,
    subject: Subject,
    options: Options,
    folder: Path,
    *,
    row: str | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> list[Outcome]:
    """All settings of a protocol for one subject; those measured before under the same identity are read.

    Args:
        protocol: what to measure.
        subject: of whom.
        options: how.
        folder: of results; every outcome is saved when it is complete, so a killed run continues.
        row: of the paper's table to stand beside; default: the protocol's choice.
        say: is told what happens.
    """
    row = protocol.row(subject) if row is None else row
    if row not in ("", *TABLES[protocol.name]):
        raise InputError(
            f"{protocol.name} has no row {row!r}: choose one of {'; '.join(TABLES[protocol.name])}"
        )
    outcomes = []
    for setting in protocol.settings:
        try:
            sets = open_sets(setting, subject)
        except UnavailableError as reason:
            identity = identify(protocol, setting, subject, options, {})
            outcome = refuse(setting, identity, str(reason))
        else:
            identity = identify(protocol, setting, subject, options, sets)
            stored = _stored(place(folder, identity), identity, say)
            if stored is None:
                say(f"{protocol.name}, {setting.name}: measuring {subject.name}")
            outcome = stored or measure(protocol, setting, subject, options, sets)
            outcome = outcome if outcome.refused else replace(outcome, notes=notes_on(subject, sets))
        # What it is held against, and how, may be said differently each time without measuring again.
        outcome = replace(outcome, paper_row=row, diet=subject.training.diet)
        outcome.save(folder)
        outcomes.append(outcome)
    return outcomes


def table_of(protocol: Protocol, outcomes: Sequence[Outcome]) -> list[Line]:
    """The lines of a protocol's table."""
    known = max(TABLES.get(protocol.name, {}).values(), key=len, default={})
    order = [*known, *(cell for s in protocol.settings for cell in s.cells)]
    return lines(outcomes, list(dict.fromkeys(order)))


def write_tables(folder: Path) -> dict[str, list[Line]]:
    """All tables of a folder of results, also written to tables.md there."""
    tables = {}
    for protocol in PROTOCOLS.values():
        if outcomes := read_all(folder, protocol.name):
            tables[protocol.name] = table_of(protocol, outcomes)
    text = "# Results\n\nAccuracy in percent, mean ± standard deviation over runs.\n\n" + "\n".join(
        markdown(made, title=PROTOCOLS[name].title) for name, made in tables.items()
    )
    write_atomic(folder / "tables.md", lambda name: _write(Path(name), text))
    return tables


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _stored(path: Path, identity: dict[str, object], say: Callable[[str], None]) -> Outcome | None:
    """The outcome in a file if it is what is asked for; says what differs when it is not."""
    if not path.is_file():
        return None
    try:
        stored = Outcome.read(path)
    except FileError as error:
        say(f"measuring again: {error}")
        return None
    if changed := staleness(stored.identity, identity):
        say(f"measuring again: {path} was made with another {changed}")
        return None
    return stored
