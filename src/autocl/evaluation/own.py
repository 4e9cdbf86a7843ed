"""A user's own images: folders in; what a learner and simple rivals know of each class out.

Shape legend: R = runs, M = tasks, Q = queries, n = images.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from autocl.baselines.base import Method
from autocl.baselines.embedding import Embedding
from autocl.baselines.incontext import InContext, simple_rivals
from autocl.data.eval_streams import TaskSpec, build_stream
from autocl.data.features import compute_features
from autocl.data.folder import from_folder
from autocl.data.imageset import LabelledSet
from autocl.data.stream import Stream, Task, side_by_side
from autocl.data.stream_config import Scenario
from autocl.encoders.backbones import Backbone
from autocl.errors import InputError
from autocl.evaluation.results import Summary, summarise
from autocl.learner import Learner
from autocl.matrix import TransferMatrix
from autocl.passage import passage


@dataclass(frozen=True, kw_only=True, eq=False)
class Known:
    """Accuracies of one method by class: shares of right answers [R, classes], in the stream's order."""

    new: Tensor
    """Right after its task, among the classes known then."""
    now: Tensor
    """After the last task, among all classes."""
    at_once: Tensor
    """By the same method begun afresh and shown all demos as one task, mixed: nothing could be forgotten."""
    matrix: TransferMatrix
    """Accuracies of tasks, [R, M, M]."""
    state_bytes: int
    keeps_demos: bool

    @property
    def average(self) -> Summary:
        """Mean over classes, at the end, in percent."""
        return summarise((100 * self.now.mean(1)).tolist())

    @property
    def choice(self) -> float:
        """Points lost since classes were new because there are more to choose from."""
        return 100 * float((self.new - self.at_once).mean())

    @property
    def forgetting(self) -> float:
        """Points lost because classes came one task after the other: at once minus now."""
        return 100 * float((self.at_once - self.now).mean())


@dataclass(frozen=True, kw_only=True, eq=False)
class OwnResult:
    """Accuracies of a learner on one's own tasks, one after another, with rivals beside it."""

    tasks: tuple[str, ...]
    classes: tuple[str, ...]
    """In the order of the stream."""
    scenario: Scenario
    shots: int
    queries: tuple[int, ...]
    """Images asked of each task in every run."""
    known: Mapping[str, Known]
    """By name: the learner first, then `simple_rivals`."""

    @property
    def ours(self) -> Known:
        """The learner's."""
        return next(iter(self.known.values()))

    @property
    def matrix(self) -> TransferMatrix:
        """The learner's accuracies in [0, 1], [R, M, M]."""
        return self.ours.matrix


def evaluate_folder(
    learner: Learner,
    folder: str | Path,
    tasks: str | Sequence[Sequence[str]] | None = None,
    *,
    name: str = "learner",
    backbone: Backbone | None = None,
    scenario: Scenario = "class",
    shots: int = 5,
    runs: int = 5,
    queries: int | None = None,
) -> OwnResult:
    """Take a learner, and simple rivals on its features, through tasks of one's own images.

    In every run other demos are drawn; the images of a class that are not demos are asked about.

    Args:
        learner: with at least as many classes as the stream needs; any number if its state grows.
        folder: holds one folder of images per class.
        tasks: classes of each task, as "cat,dog;car,bus" or lists; default: two classes a task, by name.
        name: of the learner in the result.
        backbone: a frozen network that images pass first, for a learner of vectors.
        scenario: "class" gives every class its own label, "domain" numbers them anew in each task.
        shots: demos per class.
        runs: how many.
        queries: most of each task.

    Example:
        >>> result = evaluate_folder(learner, "pictures", "cat,dog;car,bus")                # doctest: +SKIP
        >>> result.ours.average.mean, result.known["1-NN"].average.mean                     # doctest: +SKIP
        (81.3, 78.9)
    """
    if runs < 1:
        raise InputError(f"runs must be at least 1, got {runs}")
    learner, images, features = _opened(learner, folder, backbone)
    parsed = parse_tasks(tasks, images)
    stages = [
        TaskSpec(
            name=",".join(names), train=images, test=None, classes=tuple(map(images.classes.index, names))
        )
        for names in parsed
    ]
    stream = side_by_side([build_stream(stages, shots=shots, run=r, scenario=scenario) for r in range(runs)])
    entered = {name: InContext(learner, features), **simple_rivals(features)}
    return OwnResult(
        tasks=tuple(stage.name for stage in stages),
        classes=tuple(name for names in parsed for name in names),
        scenario=scenario,
        shots=shots,
        queries=tuple(min(t.queries.shape[1], queries or t.queries.shape[1]) for t in stream.tasks),
        known={n: _taken(method, stream, queries) for n, method in entered.items()},
    )


def _opened(
    learner: Learner, folder: str | Path, backbone: Backbone | None
) -> tuple[Learner, LabelledSet, Embedding]:
    """The learner, the images, and what it sees of them."""
    if backbone is None:
        if learner.takes_vectors and learner.config.height == 1:
            raise InputError(
                "this learner takes vectors: let images pass a frozen network first, as --backbone lite2"
            )
        c = learner.config
        images = from_folder(folder, size=c.height, channels=1 if c.channels == 1 else 3)
        return learner, images, Embedding.of(learner)
    made = compute_features(folder, backbone)
    fitted = learner.with_features(made.n_features)
    return fitted, made, Embedding(fitted.encoder, channels=1)


def _taken(method: Method, stream: Stream, queries: int | None) -> Known:
    """Take a method through the stream, then through all of it as one task."""
    asked = [task.asked(queries) for task in stream.tasks]
    rows, new = [], []
    for moment in passage(method, stream, queries=queries):
        rows.append(moment.accuracy)
        new.append(_by_class(method, asked[moment.task]))
    now = [_by_class(method, task) for task in asked]
    state_bytes = method.cost().state_bytes
    for _ in passage(method, _mixed(stream), ask=False):
        at_once = [_by_class(method, task) for task in asked]
    return Known(
        new=torch.cat(new, 1), now=torch.cat(now, 1), at_once=torch.cat(at_once, 1), state_bytes=state_bytes,
        matrix=TransferMatrix(torch.stack(rows, 1)), keeps_demos=method.uses_replay,
    )  # fmt: skip


def _by_class(method: Method, task: Task) -> Tensor:
    """Share of right answers for each class of a task, in the order of its labels, float64 [R, classes]."""
    answers = method.predict(task.sets[1], task.queries).argmax(-1)
    labels = task.query_labels
    shares = []
    for label in sorted(set(labels[labels >= 0].tolist())):
        own = labels == label
        shares.append(((answers == label) & own).sum(1) / own.sum(1).to(torch.float64))
    return torch.stack(shares, 1)


def _mixed(stream: Stream) -> Stream:
    """The demos of all tasks as one task, in an order drawn by the run."""
    demos = torch.cat([task.demos for task in stream.tasks], 1)
    labels = torch.cat([task.demo_labels for task in stream.tasks], 1)
    dice = [torch.Generator().manual_seed(run) for run in range(len(stream))]
    turns = torch.stack([torch.randperm(demos.shape[1], generator=die) for die in dice])
    first = stream.tasks[0]
    task = Task(
        name="all", demos=demos.gather(1, turns), demo_labels=labels.gather(1, turns),
        queries=first.queries, query_labels=first.query_labels, demo_set=first.demo_set,
        query_set=first.query_set,
    )  # fmt: skip
    return Stream(tasks=(task,), n_outputs=stream.n_outputs, scenario=stream.scenario, name="all at once")


def parse_tasks(tasks: str | Sequence[Sequence[str]] | None, images: LabelledSet) -> list[list[str]]:
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
