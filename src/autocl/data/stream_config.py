"""StreamConfig and RandomStreamConfig: the streams that a sampler draws.

Shape legend: M = tasks of a stream, N = ways, K = shots, Q = queries of a task, B = streams of a batch.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from autocl.config import Count, Share, check
from autocl.errors import InputError

Scenario = Literal["domain", "class"]
Drawing = Literal["pooled", "independent"]
Order = Literal["single", "alternate", "rotate", "mixture"]
ClassDrawing = Literal["disjoint", "independent"]


@dataclass(frozen=True, kw_only=True)
class StreamConfig:
    """M tasks of N ways and K shots each.

    Example:
        >>> config = StreamConfig(tasks=5, ways=2, scenario="class")
        >>> config.n_outputs, config.images_per_class
        (10, 18)
    """

    retired: ClassVar[dict[str, Any]] = {"label_blocks": "tied"}

    tasks: Count = 2
    """M, tasks of a stream."""
    min_tasks: Count | None = None
    """Each step draws its number of tasks from this to `tasks`, so that a learner does not count on one
    length. None: always `tasks`."""
    ways: Count = 5
    """N, classes of a task."""
    shots: Count = 15
    """K, demos of each class."""
    min_shots: Count | None = None
    """Each step draws its number of shots from this to `shots`, so that a learner does not count on one
    number. None: always `shots`."""
    queries: Count = 5
    """Q, queries of each *task*, spread over its classes as evenly as possible; which classes get one more
    is random. So 1 is the paper's single query of a random class, a multiple of N asks all classes alike."""
    scenario: Scenario = "domain"
    """domain: all tasks share N outputs; class: every class of the stream has its own output."""
    order: Order = "single"
    """The set that each task comes from. single: there is one set. alternate: two sets, A→B at even steps and
    B→A at odd ones (the paper's two-task training). rotate: the sets in turn, shifted by one each step (the
    paper's three-task training: OMF, FOM, MFO). mixture: each task from a random set. Orders shorter than the
    stream repeat. All streams of a step have the same order."""
    classes: ClassDrawing = "disjoint"
    """disjoint: no class occurs twice in a stream. independent: each task draws its classes and images
    afresh, so that a later task may repeat a class and show an image again (the paper)."""
    first_shot: bool = False
    """Also draw one separate demo per class for the 1-shot auxiliary term."""
    drawing: Drawing = "pooled"
    """pooled: the streams of a step are cut from one pool of images, each encoded once. independent: every
    stream draws its own images (the paper)."""
    pool_classes: Count = 40
    """Pooled drawing: classes drawn from each set that a step uses."""
    pool_images: Count = 20
    """Pooled drawing: images drawn from each of these classes."""

    def __post_init__(self) -> None:
        check(self)
        for name, most in (("tasks", self.tasks), ("shots", self.shots)):
            least = getattr(self, f"min_{name}")
            if least is not None and least > most:
                raise InputError(f"min_{name}={least} must lie in 1..{name}={most}")
        if self.drawing == "pooled" and self.pool_images < self.images_per_class:
            raise InputError(
                f"pool_images={self.pool_images} is too few: {self.shots} shots and {self.queries} queries "
                f"in {self.ways} ways need {self.images_per_class} images of a class; raise pool_images or "
                "lower shots or queries"
            )

    @property
    def images_per_class(self) -> int:
        """Images of one class that one task draws: demos, the separate first shot, and queries."""
        return self.shots + int(self.first_shot) + -(-self.queries // self.ways)

    def classes_per_set(self, n_sets: int) -> int:
        """Classes that one stream may ask of a single one of n_sets sets."""
        if self.classes == "independent":
            return self.ways
        return self.ways * (self.tasks if self.order == "mixture" else -(-self.tasks // n_sets))

    @property
    def n_outputs(self) -> int:
        """Labels lie in [0, n_outputs)."""
        return self.ways * (self.tasks if self.scenario == "class" else 1)

    def check_number(self, n_sets: int) -> None:
        """Refuse a number of sets that the order of tasks cannot use."""
        exact = {"single": 1, "alternate": 2}.get(self.order)
        if n_sets == 0 or (exact is not None and n_sets != exact):
            raise InputError(
                f"order={self.order!r} draws from {exact or 'one or more'} image set(s), got {n_sets}: "
                "choose another order or other sets"
            )


@dataclass(frozen=True, kw_only=True)
class RandomStreamConfig:
    """Streams with random numbers of tasks, classes and shots; each class has a label of its own, or shares.

    For learners that must not depend on the shape they were meta-trained with. A step fixes the number of
    tasks and the demos of each; within these lengths every stream has its own classes per task, its own
    unequal shots, its own returning classes and interleaved tasks. Labels are given in order of appearance.
    The queries of a task ask about the classes shown in it.

    Example:
        >>> RandomStreamConfig(max_tasks=3, n_outputs=10).images_per_class
        20
    """

    max_tasks: Count = 8
    """A stream has 1 to this many tasks."""
    max_ways: Count = 5
    """A task shows 1 to this many classes, counting those that return."""
    max_shots: Count = 15
    """A class has 1 to this many demos each time it is shown. A class that returns so often that its images
    run out shows them again from the first; queries stay apart."""
    queries: Count = 10
    """Queries of each task, spread over the classes shown in it as evenly as possible."""
    query_images: Count = 5
    """Images of each class that are asked and never shown; asked again when `queries` needs more."""
    n_outputs: Count = 20
    """Most classes of a stream."""
    return_chance: Share = 0.25
    """Chance that a task shows classes of earlier tasks again, in place of new ones."""
    interleave_chance: Share = 0.15
    """Chance that the demos of a task are mixed with those of the task before."""
    share_chance: Share = 0.0
    """Chance that the classes of a stream take turns at 2 to `max_ways` labels: a label then names many
    classes, as in domain-incremental streams."""
    sets_per_step: Count = 1
    """Image sets that a step draws from, chosen at random; each costs a pool of its own."""
    mix_chance: Share = 0.25
    """Chance that each task of a stream comes from a random one of them; else the stream keeps to one."""
    drawing: Drawing = "pooled"
    """See `StreamConfig`."""
    pool_classes: Count = 32
    """Pooled drawing: classes drawn from each set that a step uses."""
    pool_images: Count = 20
    """Pooled drawing: images drawn from each of these classes."""

    def __post_init__(self) -> None:
        check(self)
        if self.n_outputs < max(self.max_tasks, self.max_ways):
            raise InputError(
                f"n_outputs={self.n_outputs} is too few for {self.max_tasks} tasks with a new class each or "
                f"{self.max_ways} classes in one: raise n_outputs or lower max_tasks or max_ways"
            )
        if self.drawing == "pooled" and self.pool_images < self.images_per_class:
            raise InputError(
                f"pool_images={self.pool_images} is too few: {self.max_shots} demos and {self.query_images} "
                f"queries need {self.images_per_class} images of a class; raise pool_images or lower these"
            )

    @property
    def scenario(self) -> Scenario:
        """Every class of a stream has its own output, unless it shares one."""
        return "class"

    @property
    def images_per_class(self) -> int:
        """Images of one class that one stream draws."""
        return self.max_shots + self.query_images

    def classes_per_set(self, n_sets: int) -> int:
        """Classes that one stream may ask of a single one of n_sets sets."""
        del n_sets  # all tasks of a stream may come from one set
        return self.n_outputs

    def check_number(self, n_sets: int) -> None:
        """Refuse fewer sets than a step draws from."""
        if n_sets < self.sets_per_step:
            raise InputError(
                f"sets_per_step={self.sets_per_step} needs as many image sets, got {n_sets}: lower it or "
                "give more sets"
            )
