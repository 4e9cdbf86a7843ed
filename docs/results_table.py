"""Results as a Markdown table, made from `results/`: `python docs/results_table.py README.md` fills it in.

The table stands between two marks in the file; nothing in it is typed by hand.
"""

import sys
from pathlib import Path

from autocl.evaluation.bench import table_of
from autocl.evaluation.outcome import read_all
from autocl.evaluation.protocols import PROTOCOLS

BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"
ROOT = Path(__file__).parent.parent


def results_table(folder: Path) -> str:
    """Every cell that the paper reports and a learner of ours was measured on, ours beside the paper's."""
    rows = []
    for protocol in PROTOCOLS.values():
        for line in table_of(protocol, read_all(folder, protocol.name)):
            if line.ours is None or line.published is None:
                continue
            ours, paper = line.ours, line.published
            spread = "" if paper.std is None else f" ± {paper.std:.1f}"
            rows.append(
                f"| {protocol.name} | {line.cell} | {line.subject} | **{ours.mean:.1f}** ± {ours.std:.1f} "
                f"| {paper.mean:.1f}{spread} |"
            )
    if not rows:
        return "Nothing has been measured into `results/` yet.\n"
    head = "| table | cell | learner | ours | paper |\n|---|---|---|---:|---:|\n"
    return head + "\n".join(rows) + "\n"


def filled(text: str, table: str) -> str:
    """The text with the table between its marks."""
    before, rest = text.split(BEGIN, 1)
    _, after = rest.split(END, 1)
    return f"{before}{BEGIN}\n{table}{END}{after}"


if __name__ == "__main__":
    for name in sys.argv[1:]:
        path = Path(name)
        path.write_text(filled(path.read_text(encoding="utf-8"), results_table(ROOT / "results")), "utf-8")
