"""The streams of the world table, in plain numpy: the same demos and queries for every row of the table.

Shape legend: T = demos, M = tasks, Q = queries, F = features, K = classes of a set, N = classes of a stream.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple
from zlib import crc32

import numpy as np
import numpy.typing as npt

from autocl.data.imageset import FeatureSet
from autocl.data.stream_config import Scenario

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]
Twist = Literal["none", "unequal shots", "wrong labels", "returning class", "novelty"]
"""Irregularity of a stream."""

WAYS = 2
SHOTS = (1, 5, 15)
MOST_SHOTS = 30
"""Shots of a class in streams of unequal shots."""
WRONG = 0.1
"""Share of demos that bear another label of their task."""
QUERIES = 400
"""Most queries of one draw."""
FEWEST_QUERIES = 5
"""Queries of a class; a set whose classes have too few images for that is not used for the cell."""
NOVEL = -1
"""The answer to a query of a class that was never shown."""


@dataclass(frozen=True, kw_only=True)
class Kind:
    """Shape of a stream, whatever the images."""

    scenario: Scenario
    tasks: int
    shots: int
    twist: Twist = "none"

    @property
    def name(self) -> str:
        """Name in the table: class 5x2, 15 shots."""
        said = {"none": f"{self.shots} shot{'s' if self.shots > 1 else ''}"}
        return f"{self.scenario} {self.tasks}x{WAYS}, {said.get(self.twist, self.twist)}"

    @property
    def n_classes(self) -> int:
        """Classes that are shown."""
        return self.tasks * WAYS

    @property
    def n_labels(self) -> int:
        """N: labels are 0 to N - 1."""
        return self.n_classes if self.scenario == "class" else WAYS


LENGTHS: tuple[tuple[Scenario, int], ...] = (("class", 5), ("class", 10), ("domain", 5), ("domain", 20))
KINDS: tuple[Kind, ...] = (
    *(Kind(scenario=scenario, tasks=tasks, shots=k) for scenario, tasks in LENGTHS for k in SHOTS),
    Kind(scenario="class", tasks=5, shots=15, twist="unequal shots"),
    Kind(scenario="class", tasks=5, shots=15, twist="wrong labels"),
    Kind(scenario="class", tasks=5, shots=15, twist="returning class"),
    Kind(scenario="class", tasks=25, shots=15),
)
"""Every kind whose accuracy is in the table."""
NOVELTY = Kind(scenario="class", tasks=3, shots=15, twist="novelty")
"""Half of its queries are of classes that are never shown; its accuracy is not in the table."""


class Passage(NamedTuple):
    """One draw of one cell."""

    cell: str
    """Set and kind: mnist/test, class 5x2, 15 shots."""
    x: Floats
    """Features of the demos in the order they are shown, [T, F], as the encoder gave them."""
    y: Ints
    """Their labels, [T]."""
    ends: Ints
    """Number of demos behind each task, [M]: rises to T."""
    queries: Floats
    """[Q, F], about all tasks, equally many of each class."""
    answers: Ints
    """[Q]; `NOVEL` for classes that were never shown, in cells of novelty only."""


class Rows(NamedTuple):
    """One draw as rows of a set."""

    demos: Ints
    y: Ints
    ends: Ints
    queries: Ints
    answers: Ints


def cells(
    features_by_set: Mapping[str, FeatureSet], *, draws: int = 5, kinds: tuple[Kind, ...] = KINDS
) -> Iterator[Passage]:
    """All draws of all cells, those of a cell one after another.

    What is drawn depends on the set's name, its numbers of images, the kind and the number of the draw: not
    on the features, nor on what else is asked for.

    Args:
        features_by_set: by the set's name in the table; see `world_features`.
        draws: of each cell.
        kinds: of streams; a set that has too few classes or images for a kind is passed over.

    Example:
        >>> x = np.eye(60, dtype=np.float32)
        >>> toy = FeatureSet(name="toy", split="all", features=x, starts=np.arange(0, 61, 6),
        ...                  classes=tuple("abcdefghij"))
        >>> for cell, x, y, ends, queries, answers in cells({"toy": toy}, draws=1):
        ...     print(cell, x.shape, ends.tolist(), queries.shape)
        toy, class 5x2, 1 shot (10, 60) [2, 4, 6, 8, 10] (50, 60)
        toy, domain 5x2, 1 shot (10, 60) [2, 4, 6, 8, 10] (50, 60)
    """
    for name, features in features_by_set.items():
        for kind in kinds:
            cell = f"{name}, {kind.name}"
            for draw in range(draws) if fits(features, kind) else ():
                rows = draw_rows(features, kind, np.random.default_rng([crc32(cell.encode()), draw]))
                yield Passage(
                    cell,
                    features.features[rows.demos].astype(np.float32),
                    rows.y,
                    rows.ends,
                    features.features[rows.queries].astype(np.float32),
                    rows.answers,
                )


def fits(features: FeatureSet, kind: Kind) -> bool:
    """Whether a set has enough classes with enough images."""
    novel = WAYS if kind.twist == "novelty" else 0
    return len(_eligible(features, kind)) >= kind.n_classes + novel


def draw_rows(features: FeatureSet, kind: Kind, rng: np.random.Generator) -> Rows:
    """Rows of one draw. Demos of a task come in random order, queries class by class."""
    N = kind.n_classes
    eligible = rng.permutation(_eligible(features, kind))
    fewest = int(features.counts[eligible].min())
    chosen, others = eligible[:N], eligible[N:]
    images = [
        rng.permutation(np.arange(a, b))
        for a, b in zip(features.starts[chosen], features.starts[chosen + 1], strict=True)
    ]
    label = np.arange(N) if kind.scenario == "class" else np.arange(N) % WAYS
    shots = _shots(kind, fewest, rng)
    demos, y, ends = [], [], []
    for task in range(kind.tasks):
        # (class, its first and last demo) of this task
        parts = [(c, 0, shots[c]) for c in range(task * WAYS, (task + 1) * WAYS)]
        if kind.twist == "returning class":
            half = (shots[0] + 1) // 2
            if task == 0:
                parts[0] = (0, 0, half)
            if task == kind.tasks - 1:
                parts.append((0, half, shots[0]))
        rows = np.concatenate([images[c][a:b] for c, a, b in parts])
        labels = np.concatenate([np.full(b - a, label[c]) for c, a, b in parts])
        if kind.twist == "wrong labels":
            wrong = rng.choice(len(labels), round(WRONG * len(labels)), replace=False)
            first = label[task * WAYS]
            labels[wrong] = first + (labels[wrong] - first + 1) % WAYS
        order = rng.permutation(len(rows))
        demos.append(rows[order])
        y.append(labels[order])
        ends.append(len(rows))
    asked = QUERIES // 2 if kind.twist == "novelty" else QUERIES
    each = min(asked // N, fewest - max(shots))  # the same in every draw, so that draws make a batch
    queries = [rows[k : k + each] for rows, k in zip(images, shots, strict=True)]
    answers = [np.full(each, label[c]) for c in range(N)]
    if kind.twist == "novelty":
        strange = np.concatenate([np.arange(features.starts[c], features.starts[c + 1]) for c in others])
        queries.append(rng.permutation(strange)[: min(each * N, len(others) * fewest)])
        answers.append(np.full(len(queries[-1]), NOVEL))
    return Rows(
        np.concatenate(demos), np.concatenate(y).astype(np.int64), np.cumsum(ends).astype(np.int64),
        np.concatenate(queries), np.concatenate(answers).astype(np.int64),
    )  # fmt: skip


def _eligible(features: FeatureSet, kind: Kind) -> Ints:
    """Classes with enough images for the demos and a few queries."""
    return np.flatnonzero(features.counts >= kind.shots + FEWEST_QUERIES)


def _shots(kind: Kind, images: int, rng: np.random.Generator) -> list[int]:
    """Demos of each class; unequal ones from 1 to 30, or to what the smallest class can spare."""
    if kind.twist != "unequal shots":
        return [kind.shots] * kind.n_classes
    most = min(MOST_SHOTS, images - FEWEST_QUERIES)
    return [int(k) for k in rng.permutation(np.linspace(1, most, kind.n_classes).round())]
