"""Measure contestants in every cell; what was measured before under the same identity is read.

One line of RESULTS/world.jsonl is one contestant on one image set. How long it took stands apart, as for
all tables.

Shape legend: B = draws of a cell, Q = queries, N = classes.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from autocl.data.imageset import FeatureSet
from autocl.evaluation.results import DIGITS, SECONDS, SecondsLine, percent, put_lines, read_lines
from autocl.evaluation.world.contestants import Contestant, LearnerContestant
from autocl.evaluation.world.rivals import Doubles
from autocl.evaluation.world.sets import Split
from autocl.evaluation.world.streams import KINDS, NOVEL, NOVELTY, Ints, Kind, Passage, cells

TABLE = "world"
REVISION = 1
"""Raise it when streams or measures change: older lines are then not used."""
BINS = 15
"""Bins of confidence, for the expected calibration error."""
TYPICAL = Kind(scenario="class", tasks=5, shots=15)
"""The kind whose state is counted and whose time is taken."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One contestant on one image set: a line of the table's file."""

    split: Split
    features: str
    """Source of the features: a backbone, or the learner whose encoder it is."""
    entry: str
    set: str
    identity: Mapping[str, Any]
    """Everything else that decides the numbers."""
    constant: bool
    cells: Mapping[str, tuple[float, ...]]
    """Kind of stream -> per cent of right answers, one for each draw."""
    calibration: Mapping[str, float] = field(default_factory=dict)
    """Kind of stream -> expected calibration error in points, over the queries of all draws."""
    novelty: tuple[float, ...] = ()
    """Area under the ROC curve in per cent, classes never shown against those shown, one for each draw."""
    state_bytes: int = 0
    """After a stream of the typical kind."""

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Names that tell it from others."""
        return self.split, self.features, self.entry, self.set


KEY = ("split", "features", "entry", "set")


def measure_world(
    split: Split,
    features: str,
    sets: Mapping[str, FeatureSet],
    contestants: Sequence[Contestant],
    folder: Path,
    *,
    draws: int,
    again: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> list[Measured]:
    """Every contestant on every set.

    Args:
        split: which world.
        features: whose features they are, as in the table.
        sets: features by the set's name in the table; see `world_features`.
        contestants: the rows.
        folder: of results; each line is saved when it is complete, so a killed run continues.
        draws: of each cell.
        again: measure learners anew, for those who changed their code and not their weights.
        say: is told what happens.
    """
    stored = {m.key: m for m in read_world(folder)}
    found = []
    for name, of_set in sets.items():
        for contestant in contestants:
            identity = {
                "data": of_set.hash[:16],
                "fingerprint": contestant.fingerprint,
                "draws": draws,
                "revision": REVISION,
            }
            known = stored.get((split, features, contestant.name, name))
            anew = again and isinstance(contestant, LearnerContestant)
            if known is None or dict(known.identity) != identity or anew:
                start = time.perf_counter()
                known = measure_set(
                    contestant, name, of_set, draws, split=split, features=features, identity=identity
                )
                put_lines(folder / f"{TABLE}.jsonl", [asdict(known)], key=KEY)
                say(f"{name}: {contestant.name}, {time.perf_counter() - start:.1f} s")
            found.append(known)
    return found


def measure_set(contestant: Contestant, name: str, of_set: FeatureSet, draws: int, **facts: Any) -> Measured:
    """One contestant on one set; facts are the remaining fields of what is returned."""

    def drawn(kind: Kind, draws: int) -> list[Passage]:
        return list(cells({name: of_set}, draws=draws, kinds=(kind,)))

    accuracies, errors = {}, {}
    for kind in KINDS:
        if not (passages := drawn(kind, draws)):
            continue
        answers = np.stack([p.answers for p in passages])
        scores = contestant.ask(passages, kind.n_labels).scores
        accuracies[kind.name] = percent((scores.argmax(-1) == answers).mean(-1).tolist())
        if contestant.probabilities:
            errors[kind.name] = round(100 * calibration_error(scores, answers), DIGITS)
    typical = drawn(TYPICAL, 1)
    return Measured(
        entry=contestant.name,
        set=name,
        constant=contestant.constant,
        cells=accuracies,
        calibration=errors,
        novelty=_novelty(contestant, drawn(NOVELTY, draws)),
        state_bytes=contestant.state_bytes(typical[0], TYPICAL.n_labels) if typical else 0,
        **facts,
    )


def calibration_error(scores: Doubles, answers: Ints) -> float:
    """Mean distance between confidence and accuracy over bins of confidence, weighted by their queries.

    Args:
        scores: [..., N], whose softmax are the probabilities.
        answers: [...].

    Example:
        >>> calibration_error(np.zeros((4, 2)), np.array([0, 1, 0, 1]))
        0.0
    """
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    shares /= shares.sum(-1, keepdims=True)
    confidence, right = shares.max(-1).ravel(), (shares.argmax(-1) == answers).ravel()
    place = np.minimum((confidence * BINS).astype(int), BINS - 1)
    gaps = np.bincount(place, weights=confidence - right, minlength=BINS)
    return float(np.abs(gaps).sum() / len(right))


def _novelty(contestant: Contestant, passages: list[Passage]) -> tuple[float, ...]:
    said = contestant.ask(passages, NOVELTY.n_labels).novelty if passages else None
    if said is None:
        return ()
    return percent([roc_auc_score(p.answers == NOVEL, n) for p, n in zip(passages, said, strict=True)])


def time_contestant(contestant: Contestant, passages: Sequence[Passage]) -> dict[str, float]:
    """CPU seconds for a typical stream, demos and queries; of a learner also for single ones of them."""
    contestant.ask(passages[:1], TYPICAL.n_labels)  # what is compiled or imported at first use
    start = time.process_time()
    for passage in passages:
        contestant.ask([passage], TYPICAL.n_labels)
    taken = {"stream": (time.process_time() - start) / len(passages)}
    if isinstance(contestant, LearnerContestant):
        taken["demo"], taken["query"] = contestant.online(passages[0], TYPICAL.n_labels)
    return taken


def save_times(folder: Path, split: Split, features: str, times: Mapping[str, Mapping[str, float]]) -> None:
    """Put the times of contestants, by name, beside those of all tables."""
    lines = [
        {"table": TABLE, "entry": f"{name} on {features}", "setting": f"{split} {what}",
         "seconds": round(seconds, 6)}
        for name, taken in times.items()
        for what, seconds in taken.items()
    ]  # fmt: skip
    put_lines(folder / SECONDS, lines, key=("table", "entry", "setting"))


def read_times(folder: Path, split: Split, features: str) -> dict[str, dict[str, float]]:
    """Read back what `save_times` put there."""
    times: dict[str, dict[str, float]] = {}
    for line in read_lines(folder / SECONDS, SecondsLine):
        name, of, whose = line["entry"].rpartition(" on ")
        world, _, what = line["setting"].partition(" ")
        if line["table"] == TABLE and of and (world, whose) == (split, features):
            times.setdefault(name, {})[what] = line["seconds"]
    return times


def read_world(folder: Path) -> list[Measured]:
    """Every line of the table."""
    return read_lines(folder / f"{TABLE}.jsonl", Measured)
