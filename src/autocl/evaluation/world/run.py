"""World tables of named learners, one for each encoder whose features they share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from autocl.encoders import Identity
from autocl.encoders.backbones import get_backbone
from autocl.errors import InputError
from autocl.evaluation.entry import open_learner
from autocl.evaluation.world.contestants import Contestant, LearnerContestant, without_body
from autocl.evaluation.world.measure import (
    TYPICAL,
    Measured,
    measure_world,
    read_times,
    save_times,
    time_contestant,
)
from autocl.evaluation.world.rivals import RIVAL_NAMES, RIVALS
from autocl.evaluation.world.sets import Eyes, Split, backbone_eyes, learner_eyes, mapped_eyes, world_features
from autocl.evaluation.world.streams import cells, fits
from autocl.evaluation.world.table import WITHOUT_BODY, Row, Verdict, rows_of, verdict
from autocl.learner import Learner
from autocl.learner.find import find_learner

DRAWS, QUICK_DRAWS = 10, 5
TIMED = 3
"""Streams of which the time is taken."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A learner that is to be measured."""

    learner: str
    """A name in the zoo, a file, or the folder of a run."""
    backbone: str | None = None
    """For a learner of ready-made vectors: the frozen network that makes them, …"""
    embedding: str | None = None
    """… or the learner whose encoder does."""


@dataclass(frozen=True, kw_only=True)
class World:
    """The table on one encoder's features."""

    split: Split
    features: str
    sets: tuple[str, ...]
    rows: list[Row]
    verdicts: list[Verdict]
    times: dict[str, dict[str, float]]
    """Contestant -> what -> seconds."""


def bench_world(
    asked: Sequence[Asked],
    folder: Path,
    *,
    split: Split = "test",
    draws: int = DRAWS,
    again: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> list[World]:
    """Measure learners and, on the same features, all rivals.

    Args:
        asked: the learners.
        folder: of results.
        split: "test" only reports; "validation" may choose things.
        draws: of each cell.
        again: measure learners anew, for those who changed their code and not their weights.
        say: is told what happens.
    """
    by_eyes: dict[str, tuple[Eyes, dict[str, Learner]]] = {}
    for one in asked:
        entry = open_learner(one.learner)
        trained = ", ".join(entry.trained.sets) or "what its file does not name"
        say(f"{entry.name}: meta-trained on {trained}")
        eyes = eyes_of(entry.learner, entry.name, one)
        _, learners = by_eyes.setdefault(eyes.fingerprint, (eyes, {}))
        learners[entry.name] = entry.learner
    return [
        _world(eyes, learners, folder, split=split, draws=draws, again=again, say=say)
        for eyes, learners in by_eyes.values()
    ]


def eyes_of(learner: Learner, name: str, one: Asked) -> Eyes:
    """Encoder or backbone on whose features a learner of this name is measured, as was asked for."""
    other = one.backbone or one.embedding
    if not learner.takes_vectors:
        if other is not None:
            raise InputError(f"{name} has an encoder of its own: it takes no features of {other}")
        return learner_eyes(learner, name)
    if one.backbone is not None:
        backbone = get_backbone(one.backbone)
        own_map = not isinstance(learner.encoder, Identity)
        return mapped_eyes(backbone, learner, name) if own_map else backbone_eyes(backbone)
    if one.embedding is None:
        raise InputError(
            f"{name} takes ready-made vectors: give --backbone lite2, or --embedding everyday for those of a "
            "learner's encoder"
        )
    giver = find_learner(one.embedding)
    if giver.takes_vectors:
        raise InputError(f"{one.embedding} has no encoder whose features {name} could take")
    return learner_eyes(giver, one.embedding)


def _world(
    eyes: Eyes,
    learners: dict[str, Learner],
    folder: Path,
    *,
    split: Split,
    draws: int,
    again: bool,
    say: Callable[[str], None],
) -> World:
    """The table of learners that share their features."""
    say(f"features of {eyes.name}: encoding what is not in the cache")
    sets = world_features(split, eyes, say=say)
    if not sets:
        raise InputError(f"none of the image sets of the {split} world is on this machine")
    n_features = next(iter(sets.values())).n_features
    players = []
    for name, learner in learners.items():
        fitted = learner.with_features(n_features) if learner.any_length else learner
        players.append(LearnerContestant(name, fitted))
        bodiless = without_body(fitted)
        if bodiless is not None:
            players.append(LearnerContestant(WITHOUT_BODY.format(name), bodiless))
    contestants: list[Contestant] = [*players, *RIVALS]
    measured: list[Measured] = measure_world(
        split, eyes.name, sets, contestants, folder, draws=draws, again=again, say=say
    )
    times = read_times(folder, split, eyes.name)
    streams = next(
        (list(cells({n: f}, draws=TIMED, kinds=(TYPICAL,))) for n, f in sets.items() if fits(f, TYPICAL)), []
    )
    new = {
        c.name: time_contestant(c, streams)
        for c in contestants
        if streams and (c.name not in times or (again and c in players))
    }
    save_times(folder, split, eyes.name, new)
    rows = rows_of(measured)
    return World(
        split=split,
        features=eyes.name,
        sets=tuple(sets),
        rows=rows,
        verdicts=[verdict(rows, name, RIVAL_NAMES) for name in learners],
        times={**times, **new},
    )
