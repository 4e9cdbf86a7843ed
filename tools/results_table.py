"""Results as Markdown tables, made from `results/`: `python -m tools.results_table README.md` fills one in.

A table stands between two marks in the file; nothing in it is typed by hand. The README has the headlines,
the guide's page of results every cell.
"""

import sys
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path

from autocl import zoo
from autocl.evaluation.protocol import Protocol, Published
from autocl.evaluation.protocols import PROTOCOLS
from autocl.evaluation.protocols.split import FINETUNED
from autocl.evaluation.results import Summary, read_results
from autocl.evaluation.table import STAND_IN, Covered, Line, coverage, lines
from autocl.evaluation.world.measure import Measured, read_times, read_world
from autocl.evaluation.world.rivals import RIVAL_NAMES
from autocl.evaluation.world.table import WITHOUT_BODY, markdown, rows_of, said, verdict

BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"
WORLD_BEGIN, WORLD_END = "<!-- world: begin -->", "<!-- world: end -->"
MEANS = "nearest-mean (features of {})"
DEFAULT = "everyday"
ROOT = Path(__file__).parent.parent
ACL, NO_ACL = "Omniglot + mini-ImageNet, ACL", "Omniglot + mini-ImageNet, no ACL"
PHOTOS, NO_PHOTOS = "FC100 + mini-ImageNet, ACL", "FC100 + mini-ImageNet, no ACL"
THREE = "Omniglot + mini-ImageNet + FC100, ACL"
MEMORY = "the same, a memory for fast weights"
HEADLINES = [
    ("Omniglot, after mini-ImageNet", "two-task", "A→B: A", "two-task", ACL),
    ("the same without backward terms", "two-task", "A→B: A", "two-task-noacl", NO_ACL),
    ("mini-ImageNet, after Omniglot", "two-task", "B→A: B", "two-task", ACL),
    ("the same without backward terms", "two-task", "B→A: B", "two-task-noacl", NO_ACL),
    ("FC100, after mini-ImageNet", "two-task-fc100", "A→B: A", "two-task-fc100", PHOTOS),
    ("the same without backward terms", "two-task-fc100", "A→B: A", "two-task-fc100-noacl", NO_PHOTOS),
    (MEMORY, "two-task-fc100", "A→B: A", "two-task-fc100-memory", PHOTOS),
    ("mini-ImageNet, after FC100", "two-task-fc100", "B→A: B", "two-task-fc100", PHOTOS),
    ("the same without backward terms", "two-task-fc100", "B→A: B", "two-task-fc100-noacl", NO_PHOTOS),
    (MEMORY, "two-task-fc100", "B→A: B", "two-task-fc100-memory", PHOTOS),
    ("MNIST, after CIFAR-10", "two-task-ood", "A→B: A", "two-task", ACL),
    ("the same without backward terms", "two-task-ood", "A→B: A", "two-task-noacl", NO_ACL),
    ("MNIST-04, CIFAR-10, MNIST-59, Fashion-MNIST", "diverse", "A→B→C→D: average", "three-task", THREE),
    ("Split-MNIST, domain, 5 tasks", "split-mnist", "domain 5-task", "split-domain", FINETUNED),
    ("the same, the paper's architecture", "split-mnist", "domain 5-task", "split-domain-linear", FINETUNED),
    (MEMORY, "split-mnist", "domain 5-task", "split-domain-memory", FINETUNED),
    ("Split-MNIST, class, 2 tasks", "split-mnist", "class 2-task", "split-class", FINETUNED),
    ("Split-MNIST, class, 5 tasks", "split-mnist", "class 5-task", "split-class", FINETUNED),
    ("the same, the paper's architecture", "split-mnist", "class 5-task", "split-class-linear", FINETUNED),
    (MEMORY, "split-mnist", "class 5-task", "split-class-memory", FINETUNED),
    ("Split-Omniglot, domain, 5 tasks", "split-omniglot", "domain 5-task", "split-domain", FINETUNED),
    ("Split-Omniglot, domain, 10 tasks", "split-omniglot", "domain 10-task", "split-domain", FINETUNED),
    ("Split-Omniglot, domain, 20 tasks", "split-omniglot", "domain 20-task", "split-domain", FINETUNED),
    (MEMORY, "split-omniglot", "domain 20-task", "split-domain-memory", FINETUNED),
    ("Split-Omniglot, class, 5 tasks", "split-omniglot", "class 5-task", "split-class", FINETUNED),
]
"""Shown first: the stream in words, table, cell, the learner made for it, the paper's row of such streams."""

Lines = dict[tuple[str, str, str], Line]
"""By table, cell and entry."""


def measured(folder: Path) -> Lines:
    """Everything that was measured, in the order of the tables."""
    return {
        (protocol.name, line.cell, line.entry): line
        for protocol in PROTOCOLS.values()
        for line in lines(protocol, read_results(folder, protocol.name))
        if line.ours is not None
    }


def headline_table(folder: Path) -> str:
    """The headlines that were measured: ours, the default learner, nearest class mean, the paper."""
    found = measured(folder)
    rows, told = [], set()
    for words, table, cell, learner, row in HEADLINES:
        line = found.get((table, cell, learner))
        if line is None:
            continue
        default = "" if (table, cell) in told else DEFAULT  # once for each stream
        told.add((table, cell))
        beside = (found.get((table, cell, s)) for s in (default, MEANS.format(learner)))
        ours = (line.ours, *(None if b is None else b.ours for b in beside))
        rows.append(f"| {words} | `{learner}` | {_cells(*ours, _printed(PROTOCOLS[table], row, cell))} |")
    head = f"| stream | learner | ours | `{DEFAULT}` | nearest class mean | paper |"
    return "\n".join([head, "|---|---|---:|---:|---:|---:|", *rows]) + "\n"


def results_table(folder: Path) -> str:
    """Every cell of every shipped learner, then every number of the paper with what became of it here."""
    found = measured(folder)
    shipped = [
        f"| {table}, {cell} | {entry} | {_cells(line.ours, _ours(found, table, cell, MEANS.format(entry)))} |"
        for (table, cell, entry), line in found.items()
        if entry in zoo.names()
    ]
    if not shipped:
        return "Nothing has been measured into `results/` yet.\n"
    covered = _covered(folder)
    paper = [
        f"| {c.table}, {c.cell} | {c.row.name} | {_cells(c.published, c.line and c.line.ours)} | "
        f"{c.line.entry + ': ' if c.line else ''}{c.status} |"
        for c in covered
    ]
    # Each number of the paper once, though several learners may stand beside it.
    once = {(c.table, c.cell, c.row.name): c for c in reversed(covered)}.values()
    counts = Counter(c.status.partition(":")[0].replace(f" ({STAND_IN})", "") for c in once)
    told = {table for table, _, entry in found if entry in zoo.names()}
    return "\n".join(
        [
            "“A→B: A” is the accuracy on A after A and then B were learned. The tables:\n",
            *(f"- **{p.name}**: {p.title}" for p in PROTOCOLS.values() if p.name in told),
            "",
            "| table | learner | ours | nearest class mean |",
            "|---|---|---:|---:|",
            *shipped,
            "\n## The paper's numbers\n",
            "A learner or method stands beside a row only if its file says of it what the row says: image",
            "sets, tasks, ways, shots, scenario, objective, architecture. “Higher” and “lower” stand where a",
            "row shows forgetting, and more is not better. Stand-in images: the copy at hand is not the",
            "official one pixel for pixel (stored as JPEG, or a part of the training images); the notes of",
            f"`autocl bench` say how. Of {len(once)} numbers: "
            f"{', '.join(f'{n} {s}' for s, n in counts.most_common())}.\n",
            "| table | the paper's row | paper | ours | status |",
            "|---|---|---:|---:|---|",
            *paper,
            "",
        ]
    )


def _covered(folder: Path) -> list[Covered]:
    """Every number of the paper; where a learner that ships stands beside one, other entries do not."""
    found: list[Covered] = []
    for protocol in PROTOCOLS.values():
        by_number: dict[tuple[str, str], list[Covered]] = {}
        for c in coverage(protocol, read_results(folder, protocol.name)):
            by_number.setdefault((c.cell, c.row.name), []).append(c)
        for beside in by_number.values():
            shipped = [c for c in beside if c.line and c.line.entry.partition(" (")[0] in zoo.names()]
            found += shipped or beside
    return found


def _printed(protocol: Protocol, row: str, cell: str) -> Published | None:
    return next((r.cells[cell] for r in protocol.published if r.name == row and cell in r.cells), None)


def _ours(found: Lines, table: str, cell: str, entry: str) -> Summary | None:
    line = found.get((table, cell, entry))
    return None if line is None else line.ours


def _cells(*summaries: Summary | Published | None) -> str:
    def cell(s: Summary | Published | None) -> str:
        if s is None:
            return "–"
        return f"{s.mean:.1f}" if s.std is None else f"{s.mean:.1f} ± {s.std:.1f}"

    return " | ".join(cell(s) for s in summaries)


def world_markdown(folder: Path) -> str:
    """All of the test world in a folder of results: for each encoder the table and what follows from it."""
    by_features: dict[str, list[Measured]] = {}
    for measured in read_world(folder):
        if measured.split == "test":
            by_features.setdefault(measured.features, []).append(measured)
    if not by_features:
        return "Nothing has been measured into `results/world.jsonl` yet.\n"
    parts = []
    for features, of_one in by_features.items():
        rows, times = rows_of(comparable(of_one, RIVAL_NAMES)), read_times(folder, "test", features)
        entries = {row.entry for row in rows}
        bare = {WITHOUT_BODY.format(entry) for entry in entries}
        learners = [row.entry for row in rows if row.entry not in bare and row.entry not in RIVAL_NAMES]
        verdicts = [line for name in learners for line in said(verdict(rows, name, RIVAL_NAMES), times)]
        sets = ", ".join(dict.fromkeys(m.set for m in of_one))
        parts.append(
            f"### Features of `{features}`\n\n{len(rows[0].cells)} cells of {sets}; {rows[0].mean.runs} "
            "draws of each.\n\n"
            f"{markdown(rows, times)}\n" + "".join(f"- {line}\n" for line in verdicts)
        )
    return "\n".join(parts)


def comparable(measured: Sequence[Measured], rivals: Collection[str]) -> list[Measured]:
    """Without learners that were measured on other features, draws or sets than the rivals now stand on.

    Args:
        measured: of one world and one encoder's features.
        rivals: names; they are measured together with every learner, so theirs are the latest lines.
    """
    now = {m.set: (m.identity.get("data"), m.identity.get("draws")) for m in measured if m.entry in rivals}
    fresh = [m for m in measured if (m.identity.get("data"), m.identity.get("draws")) == now.get(m.set)]
    complete = {entry for entry, n in Counter(m.entry for m in fresh).items() if n == len(now)}
    return [m for m in fresh if m.entry in complete]


def filled(text: str, table: str, begin: str = BEGIN, end: str = END) -> str:
    """The text with the table between its marks."""
    before, rest = text.split(begin, 1)
    _, after = rest.split(end, 1)
    return f"{before}{begin}\n{table}{end}{after}"


if __name__ == "__main__":
    for name in sys.argv[1:]:
        path = Path(name)
        path.write_text(filled(path.read_text(encoding="utf-8"), headline_table(ROOT / "results")), "utf-8")
