"""Learners that come with the package: one safetensors file each, with a model card beside it.

`records.json` has a record of the making of each, from which `tools/ship.py` writes the cards.

Only names and files: `autocl.learner.find.find_learner` loads one.
"""

from contextlib import AbstractContextManager
from importlib.resources import as_file, files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from autocl.names import resolve
from autocl.typed_json import parse_json

__all__ = ["card", "file", "names", "record"]

SUFFIX = ".safetensors"
RECORDS = "records.json"
"""File beside the learners: for each name the record of its making."""


def names() -> list[str]:
    """Names of the learners that ship with this version, sorted."""
    return sorted(
        file.name.removesuffix(SUFFIX) for file in _folder().iterdir() if file.name.endswith(SUFFIX)
    )


def file(name: str) -> AbstractContextManager[Path]:
    """The file of a shipped learner, for as long as the context lasts."""
    return as_file(_file(name, SUFFIX))


def card(name: str) -> str:
    """The model card of a learner: how it was made, what it measured, what it cannot do."""
    return _file(name, ".md").read_text(encoding="utf-8")


def record(name: str) -> dict[str, Any]:
    """Record of a learner's making: its recipe, data, validations, and what it reached in a check."""
    file = _folder() / RECORDS
    text = file.read_text(encoding="utf-8")
    records = parse_json(text, dict[str, dict[str, Any]], where=str(file))
    return records[_known(name)]


def _folder() -> Traversable:
    return files("autocl.zoo")


def _file(name: str, suffix: str) -> Traversable:
    return _folder() / (_known(name) + suffix)


def _known(name: str) -> str:
    own = f"; a learner of your own is a path (./{name}/best{SUFFIX}) or a Learner"
    return resolve(name, names(), "shipped learner", hint=own)
