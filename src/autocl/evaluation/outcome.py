"""Outcome: the result of one subject in one setting, as data that says what it is the result of."""

import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

import autocl
from autocl.errors import FileError
from autocl.evaluation.subject import check_name
from autocl.files import write_json
from autocl.matrix import TransferMatrix

FORMAT = 1


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome:
    """What was measured, or why not."""

    identity: Mapping[str, Any]
    """Everything that decides the numbers: a stored outcome is reused only when all of it agrees."""
    tasks: tuple[str, ...] = ()
    """Names, in the order of the stream."""
    matrix: TransferMatrix | None = None
    """Accuracies in [0, 1], [R, M, M]."""
    cells: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Cell of the table -> percent, one for each run; none when refused."""
    paper_row: str = ""
    """The row of the paper's table that the subject stands beside; empty: none."""
    diet: str = "demos"
    """What the subject was fed of each task: the demos, or all training images ("full")."""
    refused: str = ""
    """Why the subject cannot do it; the paper's N.A."""
    notes: tuple[str, ...] = ()
    """What a reader must know, e.g. that a copy of a set is only a part."""
    incomparable: str = ""
    """Why the numbers should not be held against the paper's; empty when they may."""
    cost: Mapping[str, float] = field(default_factory=dict)
    """Of one run: seconds, examples, gradient_steps, state_bytes."""
    versions: Mapping[str, str] = field(default_factory=lambda: versions())

    @property
    def protocol(self) -> str:
        """Its name."""
        return str(self.identity["protocol"])

    @property
    def setting(self) -> str:
        """Its name within the protocol."""
        return str(self.identity["setting"])

    @property
    def subject(self) -> str:
        """Its name."""
        return str(self.identity["subject"])

    def save(self, folder: Path) -> Path:
        """Write to its place in a folder of results."""
        path = place(folder, self.identity)
        values = {
            "format": FORMAT,
            "identity": dict(self.identity),
            "tasks": list(self.tasks),
            "matrix": None if self.matrix is None else self.matrix.to_lists(),
            "cells": {name: list(v) for name, v in self.cells.items()},
            "paper_row": self.paper_row,
            "diet": self.diet,
            "refused": self.refused,
            "notes": list(self.notes),
            "incomparable": self.incomparable,
            "cost": dict(self.cost),
            "versions": dict(self.versions),
        }
        write_json(path, values)
        return path

    @staticmethod
    def read(path: Path) -> "Outcome":
        """Read what `save` wrote."""
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            if values["format"] != FORMAT:
                raise FileError(f"{path}: results of format {values['format']}, this autocl reads {FORMAT}")
            return Outcome(
                identity=values["identity"],
                tasks=tuple(values["tasks"]),
                matrix=None if values["matrix"] is None else TransferMatrix.from_lists(values["matrix"]),
                cells={name: tuple(v) for name, v in values["cells"].items()},
                paper_row=values["paper_row"],
                diet=values.get("diet", "demos"),  # absent: written before full diets were measured
                refused=values["refused"],
                notes=tuple(values["notes"]),
                incomparable=values["incomparable"],
                cost=values["cost"],
                versions=values["versions"],
            )
        except (KeyError, TypeError, ValueError) as error:
            raise FileError(f"{path}: not a result written by autocl ({error}); delete it") from error


def place(folder: Path, identity: Mapping[str, Any]) -> Path:
    """Where the outcome of this identity lies: PROTOCOL/SUBJECT/SETTING.json."""
    parts = [check_name(str(identity[key])) for key in ("protocol", "subject", "setting")]
    return folder / parts[0] / parts[1] / f"{parts[2]}.json"


def staleness(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """What differs between a stored outcome and the one asked for; empty when it can be reused."""
    changed = sorted(k for k in stored.keys() | wanted.keys() if stored.get(k) != wanted.get(k))
    return ", ".join(changed)


def read_all(folder: Path, protocol: str) -> list[Outcome]:
    """Every outcome of a protocol in a folder of results, by subject and setting.

    First what learns in context, then what descends on all training images, then what descends on the demos.
    """
    outcomes = [Outcome.read(path) for path in sorted((folder / check_name(protocol)).glob("*/*.json"))]
    kinds: dict[str, int] = {}
    for o in outcomes:
        kind = 1 if o.diet == "full" else 2 if o.cost and o.cost["gradient_steps"] else 0
        kinds[o.subject] = max(kind, kinds.get(o.subject, 0))
    return sorted(outcomes, key=lambda o: kinds[o.subject])


def versions() -> dict[str, str]:
    """Of what computes here."""
    return {
        "autocl": autocl.__version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
    }
