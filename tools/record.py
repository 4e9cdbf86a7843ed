"""NAME.json of the zoo: how a learner was made, as far as its card says it."""

from typing import Any, NotRequired, TypedDict

from autocl.training.folder import DataLine


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
    """NAME.json: how a learner was made."""

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
