"""One self-contained HTML page of all results: tables, heat maps, curves and films of the weights."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from matplotlib import colormaps
from matplotlib.colors import to_hex

import autocl
from autocl.errors import InputError
from autocl.evaluation.emergence import Emergence, EmergenceLine
from autocl.evaluation.lines import read_lines
from autocl.evaluation.protocols import PROTOCOLS
from autocl.evaluation.results import Result, read_results
from autocl.evaluation.statistics import summarise
from autocl.evaluation.table import HEADINGS, Line, footnotes, is_number, lines, marked, numbered
from autocl.figures.emergence import plot_emergence
from autocl.figures.matrix import CROWDED
from autocl.figures.pictures import LINES, REPORT, WeightsLine, draw, inline, place
from autocl.figures.style import SEQUENTIAL
from autocl.files import write_text
from autocl.matrix import TransferMatrix

STYLE = """
:root { color-scheme: light; --line: #d5dae1; --dim: #5b6573; }
body { font: 15px/1.5 system-ui, sans-serif; color: #1b2330; max-width: 72rem; }
body { margin: 0 auto; padding: 1.5rem; }
h1 { font-size: 1.6rem; margin: 0 0 .3rem; } h2 { font-size: 1.2rem; margin: 2.4rem 0 .6rem; }
h3 { font-size: 1rem; margin: 1.4rem 0 .4rem; } p, ul { color: var(--dim); margin: .4rem 0; }
nav a { margin-right: 1rem; white-space: nowrap; } .wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .88rem; width: 100%; }
th, td { padding: .28rem .6rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
th { font-weight: 600; border-bottom-width: 2px; } tr.first td { border-top: 2px solid var(--line); }
td.n, th.n { text-align: right; white-space: nowrap; } td.cell { white-space: nowrap; }
.reproduced, .better { color: #00694c; } .better { font-weight: 600; } .worse { color: #a34700; }
.none { color: var(--dim); } .grid { display: flex; flex-wrap: wrap; gap: 1rem; }
figure { margin: 0; } figcaption { font-size: .82rem; color: var(--dim); max-width: 26rem; }
img { max-width: 100%; height: auto; }
table.heat { width: auto; font-size: .8rem; } .heat th, .heat td { border: 0; padding: 0 .4rem; }
.heat th { font-weight: 400; color: var(--dim); white-space: nowrap; text-align: right; }
.heat th { vertical-align: middle; }
.heat tr:first-child th { vertical-align: bottom; text-align: center; padding: .2rem 0; }
.heat tr:first-child span { writing-mode: vertical-rl; transform: rotate(180deg); }
.heat td { width: 2rem; height: 2rem; text-align: center; vertical-align: middle; }
.crowded td { width: .9rem; height: .9rem; padding: 0; } .crowded th { font-size: .65rem; padding: 0 .1rem; }
.crowded tr:first-child span { writing-mode: horizontal-tb; transform: none; }
details > summary { cursor: pointer; margin: .8rem 0; color: #0b5cad; }
"""


def write_report(folder: str | Path) -> Path:
    """Write RESULTS/report/index.html from everything a folder of results holds.

    Args:
        folder: where `autocl bench` put its results.

    Returns:
        The page. It needs no other file and no network.
    """
    folder = Path(folder)
    sections = [
        (protocol.title, name, _protocol(lines(protocol, results)))
        for name, protocol in PROTOCOLS.items()
        if (results := read_results(folder, name))
    ]
    if runs := read_lines(folder / "emergence.jsonl", EmergenceLine):
        sections.append(
            ("Emergence of forgetting in meta-training (Figure 2)", "emergence", _emergence(runs))
        )
    if learners := read_lines(folder / LINES, WeightsLine):
        title = "Learners at work on Split-MNIST (Figures 3–5)"
        sections.append((title, "weights", "".join(_learner(about, folder) for about in learners)))
    if not sections:
        raise InputError(
            f"{folder} holds no results to report: run `autocl bench TABLE --out {folder}` first"
        )
    links = " ".join(f'<a href="#{name}">{escape(name)}</a>' for _, name, _ in sections)
    body = "".join(
        f'<section id="{name}"><h2>{escape(title)}</h2>{content}</section>'
        for title, name, content in sections
    )
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>autocl results</title><style>{STYLE}</style></head><body>"
        f"<h1>autocl {escape(autocl.__version__)}: results</h1>"
        "<p>Accuracy in percent, mean ± standard deviation over runs. <em>Reproduced</em>: our mean differs "
        "from the published one by less than half a point or 1.96 standard errors of the difference.</p>"
        f"<nav>{links}</nav>{body}</body></html>\n"
    )
    out = folder / REPORT / "index.html"
    write_text(out, page)
    return out


def _protocol(made: Sequence[Line]) -> str:
    """A table, its notes, and the matrices behind it."""
    number = [is_number(i) for i in range(len(HEADINGS))]
    head = "".join(
        f"<th{' class=n' if n else ''}>{escape(h)}</th>" for h, n in zip(HEADINGS, number, strict=True)
    )
    rows, last = [], ""
    for line, cells_of in zip(made, marked(made), strict=True):
        texts = list(cells_of)
        new, last = line.entry != last, line.entry
        texts[0] = texts[0] if new else ""
        kind = line.status if line.status in ("reproduced", "better", "worse") else "none"
        classes = [
            "cell" if i == 1 else kind if i == 5 else "n" if number[i] else "" for i in range(len(texts))
        ]
        cells = "".join(f'<td class="{c}">{escape(t)}</td>' for c, t in zip(classes, texts, strict=True))
        rows.append(f"<tr{' class=first' if new else ''}>{cells}</tr>")
    notes = "".join(f"<li>{escape(note)}</li>" for note in (*numbered(made), *footnotes(made)))
    results = {line.result.key: line.result for line in made if line.ours is not None}.values()
    figures = "".join(_matrix(r, r.matrix) for r in results if r.matrix is not None and r.matrix.tasks > 1)
    matrices = f"<details><summary>Transfer matrices</summary><div class=grid>{figures}</div></details>"
    return (
        f"<div class=wide><table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
        f"<ul>{notes}</ul>{matrices if figures else ''}"
    )


def _matrix(result: Result, matrix: TransferMatrix) -> str:
    """The heat map of one result with its metrics and what it was measured on."""
    found = "; ".join(f"{name} {mean:.1f} ± {std:.1f}" for name, (mean, std) in result.metrics.items())
    return (
        f"<figure>{_heat(matrix, result.tasks)}"
        f"<figcaption><b>{escape(result.entry)}, {escape(result.setting)}</b><br>{escape(found)}<br>"
        + escape(f"{result.identity['runs']} runs, fingerprint {result.identity['fingerprint']}")
        + "</figcaption></figure>"
    )


def _heat(matrix: TransferMatrix, tasks: Sequence[str]) -> str:
    """A heat map as a table: text stays text, and a page of many stays small."""
    crowded = matrix.tasks > CROWDED
    names = [str(i + 1) if crowded else escape(name) for i, name in enumerate(tasks)]
    rows = []
    for name, values in zip(names, matrix.to_lists(), strict=True):
        cells = "".join(_heat_cell(value, crowded=crowded) for value in values)
        rows.append(f"<tr><th>{name if crowded else f'after {name}'}</th>{cells}</tr>")
    heads = "".join(f"<th><span>{name}</span></th>" for name in names)
    kind = "heat crowded" if crowded else "heat"
    return f'<table class="{kind}"><tr><th></th>{heads}</tr>{"".join(rows)}</table>'


def _heat_cell(value: float | None, *, crowded: bool) -> str:
    if value is None:
        return "<td></td>"
    colour = to_hex(colormaps[SEQUENTIAL](value))
    ink = "#000" if value > 0.55 else "#fff"
    text = "" if crowded else f"{100 * value:.0f}"
    return f'<td style="background:{colour};color:{ink}" title="{100 * value:.1f} %">{text}</td>'


def _emergence(runs: Sequence[EmergenceLine]) -> str:
    figures = []
    for line in runs:
        found = Emergence.from_line(line)
        picture = draw(plot_emergence, found, size=(6.4, 3.6))
        kind = {True: "with", False: "without", None: "unknown whether with"}[found.acl]
        learned = "; ".join(
            f"{name} meta-learned " + ("not yet" if at is None else f"at step {at:,.0f}")
            for name, at in found.learned_at().items()
        )
        figures.append(
            f'<figure><img src="{inline(picture)}" alt="Loss terms of {escape(found.name)}">'
            f"<figcaption><b>{escape(found.name)}</b>, {kind} backward terms in the loss; {escape(learned)}."
            "</figcaption></figure>"
        )
    return f"<div class=grid>{''.join(figures)}</div>"


CAPTIONS = {
    "stream": "Accuracy on each task while the stream goes on; thin before its first demo.",
    "film": "Change of the blocks y, q, k, β (columns) of two heads (rows) of layer 1.",
    "strip": "The blocks of one head during one task (Figures 3–5).",
    "rank": "Effective rank of the y-block; the band spans the heads.",
    "rates": "Learning rates σ(β): median and middle half of the heads.",
    "change": "How far each block moves at each demo.",
}


def _learner(about: WeightsLine, folder: Path) -> str:
    """The numbers of one learner, and its pictures where `autocl bench weights` drew them."""
    gap, speed = summarise(about["stability_gap"]), summarise(about["learning_acceleration"])
    where, figures = place(folder, about["entry"]), []
    for name, caption in CAPTIONS.items():
        drawn = [*where.glob(f"{name}*.png"), *where.glob(f"{name}*.gif")] if where.is_dir() else []
        for picture in sorted(drawn):
            source = inline(picture.read_bytes(), picture.suffix[1:])
            figures.append(
                f'<figure><img src="{source}" alt="{escape(caption)}">'
                f"<figcaption>{escape(caption)}</figcaption></figure>"
            )
    return (
        f"<h3>{escape(about['entry'])}</h3><p>Stability gap {gap.mean:.1f} ± {gap.std:.1f} points; "
        f"learning acceleration after {about['few_demos']} demos {speed.mean:+.1f} ± {speed.std:.1f} "
        f"points.</p>"
        f"<div class=grid>{''.join(figures)}</div>"
    )
