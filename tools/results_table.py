"""Results as Markdown tables, made from `results/`: `python -m tools.results_table README.md` fills one in.

A table stands between two marks in the file; nothing in it is typed by hand. The README has the headlines,
the guide's page of results every cell.
"""

import sys
from pathlib import Path

from autocl import zoo
from autocl.evaluation.bench import table_of
from autocl.evaluation.outcome import read_all
from autocl.evaluation.paper import Published
from autocl.evaluation.protocols import PROTOCOLS
from autocl.evaluation.statistics import Summary

BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"
RIVAL = "nearest-mean (features of {})"
ROOT = Path(__file__).parent.parent
HEADLINES = [
    ("Omniglot, after mini-ImageNet", "two-task", "A→B: A", "two-task"),
    ("the same without backward terms", "two-task", "A→B: A", "two-task-noacl"),
    ("mini-ImageNet, after Omniglot", "two-task", "B→A: B", "two-task"),
    ("the same without backward terms", "two-task", "B→A: B", "two-task-noacl"),
    ("MNIST, after CIFAR-10", "two-task-ood", "A→B: A", "two-task"),
    ("the same without backward terms", "two-task-ood", "A→B: A", "two-task-noacl"),
    ("MNIST-04, CIFAR-10, MNIST-59, Fashion-MNIST", "diverse", "A→B→C→D: average", "three-task"),
    ("Split-MNIST, domain, 5 tasks", "split-mnist", "domain 5-task", "split-domain"),
    ("the same, the paper's architecture", "split-mnist", "domain 5-task", "split-domain-linear"),
    ("Split-MNIST, class, 2 tasks", "split-mnist", "class 2-task", "split-class"),
    ("Split-MNIST, class, 5 tasks", "split-mnist", "class 5-task", "split-class"),
    ("the same, the paper's architecture", "split-mnist", "class 5-task", "split-class-linear"),
    ("Split-Omniglot, domain, 5 tasks", "split-omniglot", "domain 5-task", "split-domain"),
    ("Split-Omniglot, domain, 10 tasks", "split-omniglot", "domain 10-task", "split-domain"),
    ("Split-Omniglot, domain, 20 tasks", "split-omniglot", "domain 20-task", "split-domain"),
    ("Split-Omniglot, class, 5 tasks", "split-omniglot", "class 5-task", "split-class"),
]
"""What is shown first: in words, protocol, cell, and the learner made for it."""


def headline_table(folder: Path) -> str:
    """The headlines that were measured: ours, the default learner, nearest class mean, the paper."""
    lines = {
        (protocol.name, line.cell, line.subject): line
        for protocol in PROTOCOLS.values()
        for line in table_of(protocol, read_all(folder, protocol.name))
        if line.ours is not None
    }
    rows, told = [], set()
    for words, protocol, cell, learner in HEADLINES:
        line = lines.get((protocol, cell, learner))
        if line is None:
            continue
        default = "" if (protocol, cell) in told else "everyday"  # once for each stream
        told.add((protocol, cell))
        beside = (lines.get((protocol, cell, s)) for s in (default, RIVAL.format(learner)))
        ours = (line.ours, *(None if b is None else b.ours for b in beside), line.published)
        rows.append(f"| {words} | `{learner}` | {_cells(ours)} |")
    head = "| stream | learner | ours | `everyday` | nearest class mean | paper |"
    return "\n".join([head, "|---|---|---:|---:|---:|---:|", *rows]) + "\n"


def results_table(folder: Path) -> str:
    """Every cell that the paper reports and a shipped learner was measured on.

    Beside it the rival that matters most, nearest class mean on the same encoder, and the paper's number.
    """
    rows = []
    for protocol in PROTOCOLS.values():
        lines = [
            line for line in table_of(protocol, read_all(folder, protocol.name)) if line.ours is not None
        ]
        means = {(line.subject, line.cell): line.ours for line in lines}
        for line in lines:
            if line.subject in zoo.names() and line.published is not None:
                rival = means.get((RIVAL.format(line.subject), line.cell))
                cells = (line.ours, rival, line.published)
                rows.append(f"| {protocol.name}, {line.cell} | {line.subject} | {_cells(cells)} |")
    if not rows:
        return "Nothing has been measured into `results/` yet.\n"
    head = "| table | learner | ours | nearest class mean | paper |\n|---|---|---:|---:|---:|\n"
    return head + "\n".join(rows) + "\n"


def _cells(summaries: tuple[Summary | Published | None, ...]) -> str:
    def cell(s: Summary | Published | None) -> str:
        if s is None:
            return "–"
        return f"{s.mean:.1f}" if s.std is None else f"{s.mean:.1f} ± {s.std:.1f}"

    return " | ".join(cell(s) for s in summaries)


def filled(text: str, table: str) -> str:
    """The text with the table between its marks."""
    before, rest = text.split(BEGIN, 1)
    _, after = rest.split(END, 1)
    return f"{before}{BEGIN}\n{table}{END}{after}"


if __name__ == "__main__":
    for name in sys.argv[1:]:
        path = Path(name)
        path.write_text(filled(path.read_text(encoding="utf-8"), headline_table(ROOT / "results")), "utf-8")
