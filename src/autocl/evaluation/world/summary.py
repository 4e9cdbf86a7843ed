"""Summary of the world table for a learner: level, rank, distance to rivals, what its body adds.

A cell is one kind of stream over one image set.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from autocl.errors import InputError
from autocl.evaluation.statistics import Summary, summarise
from autocl.evaluation.world.measure import Measured
from autocl.evaluation.world.streams import KINDS

WITHOUT_BODY = "{} without body"
CLOSE = 1.0
"""Points behind the best constant-size rival that are allowed in any cell."""
GROUPS: dict[str, Callable[[str], bool]] = {
    "1 shot": lambda kind: kind.endswith(", 1 shot"),
    "5 shots": lambda kind: kind.endswith(", 5 shots"),
    "15 shots": lambda kind: kind.endswith(", 15 shots"),
    "other": lambda kind: not kind.endswith((" shot", " 5 shots", " 15 shots")),
    "class": lambda kind: kind.startswith("class"),
    "domain": lambda kind: kind.startswith("domain"),
}
"""Cells that are averaged apart: by shots ("other": unequal shots, wrong labels, a returning class), and by
scenario."""

Cell = tuple[str, str]
"""Image set, kind of stream."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One contestant over all cells of a world, on one encoder's features."""

    entry: str
    constant: bool
    cells: Mapping[Cell, Summary]
    """In per cent, over draws."""
    mean: Summary
    """Over draws of the mean over cells."""
    rank: float
    """Mean over cells of its place among all rows, 1 the best; equals share theirs."""
    calibration: float | None
    """Mean expected calibration error, in points."""
    novelty: float | None
    """Mean area under the ROC curve, in per cent."""
    state_bytes: int

    def group(self, name: str) -> float | None:
        """Mean over a group of cells; None where there is no such cell."""
        values = [s.mean for (_, kind), s in self.cells.items() if GROUPS[name](kind)]
        return fmean(values) if values else None


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A learner against the rivals on its own features."""

    entry: str
    differences: Mapping[Cell, float]
    """Learner minus the best constant-size rival of that cell, in points."""
    leads: Mapping[str, float]
    """Mean of the learner minus that of each rival of any size, the best rival first."""
    body: Mapping[str, float]
    """Full learner minus the same without its body: over all cells, and by shots; empty without a body."""
    worst_body: tuple[Cell, float] | None
    """The cell in which the body does the most harm."""

    @property
    def close(self) -> int:
        """Cells in which the learner is at most a point behind."""
        return sum(d >= -CLOSE for d in self.differences.values())

    @property
    def ahead(self) -> int:
        """Cells in which it is level or ahead."""
        return sum(d >= 0 for d in self.differences.values())

    @property
    def worst(self) -> tuple[Cell, float]:
        """The cell in which it is furthest behind."""
        return min(self.differences.items(), key=lambda item: item[1])


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


def rows_of(measured: Iterable[Measured]) -> list[Row]:
    """Rows over the cells that all of them have, best first.

    Args:
        measured: of one world and one encoder's features.
    """
    by_entry: dict[str, list[Measured]] = {}
    for m in measured:
        by_entry.setdefault(m.entry, []).append(m)
    if not by_entry:
        raise InputError("the world table is empty: none of its image sets is on this machine")
    order = [kind.name for kind in KINDS]
    draws = {
        entry: {(m.set, kind): m.cells[kind] for m in of_one for kind in sorted(m.cells, key=order.index)}
        for entry, of_one in by_entry.items()
    }
    first, *others = draws.values()
    common = [cell for cell in first if all(cell in other for other in others)]
    means = np.array([[fmean(draws[entry][cell]) for cell in common] for entry in draws])
    # Equal means share the mean of their places.
    places = 0.5 + (means[None] > means[:, None]).sum(1) + 0.5 * (means[None] == means[:, None]).sum(1)
    rows = [
        Row(
            entry=entry,
            constant=of_one[0].constant,
            cells={cell: summarise(draws[entry][cell]) for cell in common},
            mean=summarise([fmean(run) for run in zip(*(draws[entry][c] for c in common), strict=True)]),
            rank=float(place.mean()),
            calibration=_mean(v for m in of_one for v in m.calibration.values()),
            novelty=_mean(v for m in of_one for v in m.novelty),
            state_bytes=max(m.state_bytes for m in of_one),
        )
        for (entry, of_one), place in zip(by_entry.items(), places, strict=True)
    ]
    return sorted(rows, key=lambda row: -row.mean.mean)


def verdict(rows: Sequence[Row], learner: str, rivals: Sequence[str]) -> Verdict:
    """A learner beside rivals, all by their names in the table; rows as `rows_of` gives them."""
    by_name = {row.entry: row for row in rows}
    mine, others = by_name[learner], [row for row in rows if row.entry in set(rivals)]
    constant = [row for row in others if row.constant]
    if not constant:
        raise InputError("there is no constant-size rival to compare with")
    bodiless = by_name.get(WITHOUT_BODY.format(learner))
    gains = {c: mine.cells[c].mean - bodiless.cells[c].mean for c in mine.cells} if bodiless else {}
    return Verdict(
        entry=learner,
        differences={
            cell: ours.mean - max(row.cells[cell].mean for row in constant)
            for cell, ours in mine.cells.items()
        },
        leads={row.entry: mine.mean.mean - row.mean.mean for row in others},
        body={"all": fmean(gains.values()), **_by_shots(gains)} if gains else {},
        worst_body=min(gains.items(), key=lambda item: item[1]) if gains else None,
    )


def _by_shots(gains: Mapping[Cell, float]) -> dict[str, float]:
    found = {}
    for name in ("1 shot", "5 shots", "15 shots", "other"):
        value = _mean(gain for (_, kind), gain in gains.items() if GROUPS[name](kind))
        if value is not None:
            found[name] = value
    return found


def _mean(values: Iterable[float]) -> float | None:
    listed = list(values)
    return fmean(listed) if listed else None
