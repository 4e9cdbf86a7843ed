"""A user's own images: folders in, transfer matrix out."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from autocl.data.fixed import Stage, chain_stream
from autocl.data.folder import from_folder
from autocl.data.imageset import ImageSet
from autocl.data.stream_config import Scenario
from autocl.errors import InputError
from autocl.evaluation.statistics import Summary, metrics
from autocl.learner import Learner
from autocl.matrix import TransferMatrix
from autocl.passage import run_streams


@dataclass(frozen=True, kw_only=True, eq=False)
class OwnResult:
    """How well a learner learns one's own tasks one after another."""

    matrix: TransferMatrix
    """Accuracies in [0, 1], [runs, tasks, tasks]."""
    tasks: tuple[str, ...]
    scenario: Scenario
    shots: int
    queries: tuple[int, ...]
    """Images asked of each task in every run."""

    def metrics(self) -> dict[str, Summary]:
        """In percent over runs."""
        return metrics(self.matrix)


def evaluate_folder(
    learner: Learner,
    folder: str | Path,
    tasks: str | Sequence[Sequence[str]] | None = None,
    *,
    scenario: Scenario = "class",
    shots: int = 5,
    runs: int = 5,
    queries: int | None = None,
    forward: bool = False,
) -> OwnResult:
    """Take a learner through tasks of one's own images.

    In every run other demos are drawn; the images of a class that are not demos are asked about.

    Args:
        learner: with at least as many classes as the stream needs.
        folder: holds one folder of images per class.
        tasks: classes of each task, as "cat,dog;car,bus" or lists; default: two classes a task, by name.
        scenario: "class" gives every class its own label, "domain" numbers them anew in each task.
        shots: demos per class.
        runs: how many.
        queries: most of each task.
        forward: ask about tasks still to come, too.

    Example:
        >>> result = evaluate_folder(learner, "pictures", "cat,dog;car,bus")                # doctest: +SKIP
        >>> result.metrics()["average accuracy"].mean                                       # doctest: +SKIP
        81.3
    """
    config = learner.config
    images = from_folder(folder, size=config.height, channels=1 if config.channels == 1 else 3)
    parsed = parse_tasks(tasks, images)
    if runs < 1:
        raise InputError(f"runs must be at least 1, got {runs}")
    stages = [
        Stage(name=",".join(names), train=images, test=None, classes=tuple(map(images.classes.index, names)))
        for names in parsed
    ]
    streams = [chain_stream(stages, shots=shots, run=r, scenario=scenario) for r in range(runs)]
    passed = run_streams(learner, streams, queries=queries, forward=forward)
    return OwnResult(
        matrix=passed.matrix,
        tasks=tuple(stage.name for stage in stages),
        scenario=scenario,
        shots=shots,
        queries=tuple(min(t.queries.shape[1], queries or t.queries.shape[1]) for t in streams[0].tasks),
    )


def parse_tasks(tasks: str | Sequence[Sequence[str]] | None, images: ImageSet) -> list[list[str]]:
    """Class names of each task, checked against the set.

    Example:
        >>> parse_tasks("a, b; c", ImageSet(...))                                           # doctest: +SKIP
        [['a', 'b'], ['c']]
    """
    if tasks is None:
        names = list(images.classes)
        return [names[at : at + 2] for at in range(0, len(names), 2)]
    if isinstance(tasks, str):
        parsed = [[n.strip() for n in task.split(",") if n.strip()] for task in tasks.split(";")]
    else:
        parsed = [list(task) for task in tasks]
    flat = [name for task in parsed for name in task]
    if not flat or not all(parsed):
        raise InputError(f'tasks={tasks!r} has an empty task: write class names as in "cat,dog;car,bus"')
    if unknown := sorted(set(flat) - set(images.classes)):
        raise InputError(
            f"{images.name} has no class {', '.join(map(repr, unknown))}: its classes are "
            f"{', '.join(images.classes)}"
        )
    if repeated := sorted({name for name in flat if flat.count(name) > 1}):
        raise InputError(
            f"class {', '.join(map(repr, repeated))} occurs twice in tasks={tasks!r}: use it once"
        )
    return parsed
