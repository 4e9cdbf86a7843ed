"""Method: anything that can be taken through a stream, what it is given of each task, and the registry.

Shape legend: R = runs that go side by side, M = tasks of a stream, Q = queries, N = outputs, n = examples of
a run, U = distinct images, D = inputs.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, ClassVar, Literal, TypeVar, dataclass_transform

import torch
from torch import Tensor

from autocl.data.imageset import LabelledSet
from autocl.data.stream import Stream, Task
from autocl.data.stream_config import Scenario
from autocl.errors import InputError
from autocl.names import Registry

Framing = Literal["resized", "padded"]
"""Way from images of other sizes to 32×32: resized like a learner's, or framed (Hsu et al.)."""
Diet = Literal["full", "demos"]
"""Training data of each task: all its images (full), or the few demos that an in-context learner sees."""


@dataclass(frozen=True, kw_only=True)
class StreamInfo:
    """Facts that a method is told before the first task, and nothing else."""

    scenario: Scenario
    n_outputs: int
    """N; labels lie in [0, N)."""
    n_tasks: int
    """M."""
    input_shape: tuple[int, ...]
    """[C, H, W] of images as their set stores them, or [F] of vectors."""
    seeds: tuple[int, ...]
    """One for each of the R runs: decides initial weights and the order of training."""

    @staticmethod
    def of(stream: Stream, *, seeds: Sequence[int]) -> "StreamInfo":
        """Read off R streams that go side by side, one for each seed.

        Example:
            >>> StreamInfo.of(stream, seeds=[0]).n_tasks                                   # doctest: +SKIP
            5
        """
        if len(stream) != len(seeds):
            raise InputError(
                f"got {len(stream)} streams for {len(seeds)} seeds: give one seed for each stream"
            )
        return StreamInfo(
            scenario=stream.scenario,
            n_outputs=stream.n_outputs,
            n_tasks=len(stream.tasks),
            input_shape=stream.tasks[0].sets[0].shape,
            seeds=tuple(seeds),
        )


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Cost of one run so far. Time is measured by the passage."""

    examples: int
    """Images looked at in learning; one looked at in four epochs counts four times."""
    gradient_steps: int
    """Updates of weights by a gradient; 0 for a method that learns in its forward pass."""
    state_bytes: int
    """All that is carried from one task to the next: weights that were learned, optimiser, stored images."""


class Method(ABC):
    """R independent runs of one way to learn continually, taken through R streams side by side.

    The life of a method is `begin`, then `learn` once for each task in the order of the stream; `predict` may
    be called at any boundary and as often as one likes: it is pure. `begin` again starts afresh.
    """

    name: ClassVar[str]
    """As in the registry, in the tables and on the command line."""
    uses_replay: ClassVar[bool] = False
    """Whether it keeps images of earlier tasks, which sets it apart in every table."""
    framing: ClassVar[Framing] = "resized"
    """The form of MNIST it was made for."""
    side_by_side: ClassVar[int] = 256
    """Most runs that evaluation takes through streams at once: 256 states of the paper's size are 27 MB. It
    is 1 for gradient descent, which amplifies rounding, and that depends on how many runs are multiplied
    together."""
    needs: ClassVar[frozenset[str]] = frozenset()
    """Requirements of its constructor: "encoder" is the option `embedding`."""

    _info: StreamInfo | None = None

    @property
    def info(self) -> StreamInfo:
        """The argument of `begin`."""
        if self._info is None:
            raise InputError(f"method {self.name!r} has not begun: call begin() before learn() or predict()")
        return self._info

    @abstractmethod
    def begin(self, info: StreamInfo) -> None:
        """Forget everything and prepare for streams of this form."""

    @abstractmethod
    def learn(self, task: Task) -> None:
        """Learn the next task, row r of it in run r. A boundary follows."""

    @abstractmethod
    def predict(self, images: LabelledSet, index: Tensor) -> Tensor:
        """Answer queries; changes nothing.

        Args:
            images: the set they come from.
            index: rows of it, int64: [Q], the same for all runs, or [R, Q].

        Returns:
            Logits [R, Q, N], -inf at outputs that cannot be meant yet.
        """

    def settings(self) -> dict[str, Any]:
        """Everything that was chosen when it was made, as plain data: what identifies it in results."""
        return {f.name: getattr(self, f.name) for f in fields(self)} if is_dataclass(self) else {}

    def deviation_note(self) -> str:
        """Known deviations from the published method, shown as a footnote of tables."""
        return ""

    @abstractmethod
    def cost(self) -> Cost:
        """Cost of each run since `begin`."""


METHODS: Registry[Callable[..., Method]] = Registry("method", "autocl.baselines")
M = TypeVar("M", bound=Method)


@dataclass_transform(kw_only_default=True, eq_default=False)
def register(method: type[M]) -> type[M]:
    """Class decorator: make it a dataclass and offer it under its name. Every module here is searched."""
    made = dataclass(kw_only=True, eq=False)(method)
    METHODS.register(method.name)(made)
    return made


def method_names() -> list[str]:
    """All names that `get_method` knows, sorted."""
    return METHODS.names()


def needs_of(name: str) -> frozenset[str]:
    """Requirements of a method's constructor."""
    needs: frozenset[str] = METHODS.get(name).needs  # type: ignore[attr-defined]  # classes are registered
    return needs


def get_method(name: str, **options: Any) -> Method:
    """A method by name.

    Args:
        name: see `method_names`.
        **options: what its class takes, e.g. `diet="demos"` or `strength=100.0`.

    Example:
        >>> get_method("ewc", diet="demos").name
        'ewc'
    """
    method = METHODS.get(name)
    try:
        return method(**options)
    except TypeError as error:
        raise InputError(f"method {name!r} cannot be built with {options}: {error}") from error


def rows_for(index: Tensor, runs: int) -> Tensor:
    """Index [Q] or [R, Q] -> [R, Q]; what `Method.predict` accepts, checked."""
    if index.dtype != torch.int64 or index.dim() not in (1, 2):
        raise InputError(f"index must be int64 [Q] or [R, Q], got {index.dtype} {list(index.shape)}")
    if index.dim() == 2 and len(index) != runs:
        raise InputError(f"index has rows for {len(index)} runs, the method goes through {runs}")
    return index if index.dim() == 2 else index.expand(runs, -1)


@dataclass(frozen=True, kw_only=True, eq=False)
class TaskExamples:
    """Rows of one image set, with labels: what a task gives each run."""

    images: LabelledSet
    index: Tensor
    """int64 [R, n]."""
    labels: Tensor
    """int64 [R, n]."""

    @property
    def nbytes(self) -> int:
        """Bytes of one run's images and labels, if a method has to keep them: pixels as float32."""
        return self.index.shape[1] * (4 * math.prod(self.images.shape) + 8)


@dataclass(frozen=True, kw_only=True, eq=False)
class Examples:
    """Inputs ready for a network that reads vectors."""

    inputs: Tensor
    """float32 [U, D]."""
    rows: Tensor
    """int64 [R, n], into inputs."""
    labels: Tensor
    """int64 [R, n]."""

    def take(self, order: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs [R, B, D] and labels [R, B] for positions order [R, B] among each run's examples."""
        return self.inputs[self.rows.gather(1, order)], self.labels.gather(1, order)


def examples_of(task: Task, diet: Diet) -> TaskExamples:
    """Select the images of a task that a method on this diet may train on."""
    images, _ = task.sets
    if diet == "full" and task.train is not None and task.train_labels is not None:
        return TaskExamples(images=images, index=task.train, labels=task.train_labels)
    return TaskExamples(images=images, index=task.demos, labels=task.demo_labels)


def gather(shares: Sequence[TaskExamples]) -> Examples:
    """All shares together, in order."""
    inputs, rows, start = [], [], 0
    for share in shares:
        distinct, position = torch.unique(share.index, return_inverse=True)
        inputs.append(share.images.take(distinct).flatten(1))
        rows.append(position + start)
        start += len(distinct)
    return Examples(
        inputs=torch.cat(inputs) if len(inputs) > 1 else inputs[0],
        rows=torch.cat(rows, dim=1),
        labels=torch.cat([s.labels for s in shares], dim=1),
    )
