"""Records of the zoo: how each learner was made, as far as its card says it."""

import json
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from autocl import zoo
from autocl.config import to_dict
from autocl.errors import FileError
from autocl.files import read_tensors, write_json
from autocl.learner import Learner
from autocl.learner.find import learner_file
from autocl.training import checkpoint
from autocl.training.checkpoint import DATA, DataLine
from autocl.training.log import read_log
from autocl.training.recipe import Recipe, read_recipe
from autocl.typed_json import parse_json, read_json

ZOO = Path(zoo.__file__).parent


class SourceRecord(TypedDict):
    """An image set of meta-training."""

    name: str


class StageRecipe(TypedDict):
    """What a card says of the recipe of an earlier stage."""

    sources: list[SourceRecord]


class ValidationRecord(TypedDict):
    """How the checkpoint was chosen."""

    split: str
    rule: str


class LearnerRecord(TypedDict):
    """The read-out: its name, or its settings."""

    readout: str | dict[str, Any]


class RecipeRecord(StageRecipe):
    """What a card says of the recipe."""

    name: str
    seed: int
    steps: int
    batch_size: int
    stages: list[StageRecipe]
    validation: ValidationRecord
    learner: LearnerRecord
    init_from: str


class StageRecord(TypedDict):
    """An earlier stage as it went."""

    recipe: str
    steps_done: int
    best_step: int
    seconds: float


class StartRecord(TypedDict):
    """The learner that training started from."""

    recipe: str
    fingerprint: str


class TuningRecord(TypedDict):
    """What was chosen after training, and on what."""

    chosen: dict[str, float]
    tuned_on: str


class CheckRecord(TypedDict):
    """What `autocl zoo verify` compares with: a table's cells in percent."""

    of: str
    table: str
    cells: dict[str, float]


class Record(TypedDict):
    """How a learner of a recipe was made; one that a tool made has a fingerprint and a command."""

    fingerprint: str
    check: NotRequired[CheckRecord]
    recipe: RecipeRecord
    started_from: NotRequired[StartRecord | None]
    stages: NotRequired[list[StageRecord]]
    rule: NotRequired[str]
    steps_done: int
    best_step: int
    seconds: float
    validation: list[tuple[int, float]]
    data: list[DataLine]
    tuning: NotRequired[TuningRecord]


def read_records(folder: Path) -> dict[str, dict[str, Any]]:
    """The records of a folder's learners by name; none if nothing was recorded there."""
    file = folder / zoo.RECORDS
    return read_json(file, dict[str, dict[str, Any]]) if file.exists() else {}


def recipe_record(name: str, folder: Path) -> Record:
    """The record of a learner that a recipe made."""
    records, where = read_records(folder), f"{folder / zoo.RECORDS}: {name}"
    if name not in records:
        raise FileError(f"{where}: no such record; `python -m tools.ship RUN {name}` writes it")
    return parse_json(json.dumps(records[name]), Record, where=where)


def write_record(name: str, record: dict[str, Any], folder: Path) -> None:
    """Add a learner's record to those of the folder, or replace it."""
    records = {**read_records(folder), name: record}
    write_json(folder / zoo.RECORDS, {each: records[each] for each in sorted(records)})


def record_of_run(run: Path) -> dict[str, Any]:
    """How the best learner of a run was made: recipe, stages, validations, data."""
    recipe, log, progress = read_recipe(run), read_log(run / "log.jsonl"), checkpoint.read_progress(run)
    return {
        "fingerprint": Learner.from_pretrained(run / "best.safetensors").fingerprint(),
        "recipe": to_dict(recipe),
        "started_from": _start(recipe),
        "stages": [_progress(run / f"stage{i}") for i in range(1, len(recipe.stages) + 1)],
        "rule": recipe.rule,
        "steps_done": progress.step,
        "best_step": progress.best_step,
        "best_score": progress.best_score,
        "seconds": progress.seconds,
        "validation": [[r["step"], r["validation/score"]] for r in log if "validation/score" in r],
        "data": read_json(run / DATA, list[DataLine]),
    }


def _start(recipe: Recipe) -> dict[str, str] | None:
    """What the run was finetuned from: the file may be gone tomorrow, its fingerprint stays."""
    if not recipe.init_from:
        return None
    with learner_file(recipe.init_from) as file:
        _, meta = read_tensors(file, kind="learner")
        return {"recipe": meta.get("recipe", ""), "fingerprint": Learner.from_pretrained(file).fingerprint()}


def _progress(stage: Path) -> dict[str, Any]:
    progress = checkpoint.read_progress(stage)
    return {
        "recipe": read_tensors(stage / "best.safetensors", kind="learner")[1]["recipe"],
        "steps_done": progress.step,
        "best_step": progress.best_step,
        "best_score": progress.best_score,
        "seconds": progress.seconds,
    }
