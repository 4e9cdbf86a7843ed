"""Sets whose pixels tell their class, and methods whose answers are known beforehand."""

from functools import cache
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from autocl.baselines.base import Cost, Method, StreamInfo, rows_for
from autocl.data.imageset import ImageSet, content_hash
from autocl.data.stream import Task
from autocl.encoders import EncoderConfig
from autocl.evaluation.entry import Entry
from autocl.evaluation.protocol import Provenance
from autocl.learner import Learner
from autocl.learner.config import LearnerConfig

CLASSES = 100
PER_CLASS = 32


@cache
def coded_set(name: str, split: str, classes: int = CLASSES, per_class: int = PER_CLASS) -> ImageSet:
    """Images of 8 x 8 pixels: the first pixel is the class, the second the number within the class."""
    n = classes * per_class
    images = np.random.default_rng(len(name + split)).integers(0, 255, (n, 1, 8, 8), np.uint8)
    images[:, 0, 0, 0] = np.repeat(np.arange(classes), per_class)
    images[:, 0, 0, 1] = np.tile(np.arange(per_class), classes)
    starts = np.arange(0, n + 1, per_class)
    names = tuple(
        f"{name}-{split if name in ('omniglot', 'mini_imagenet') else ''}{c}" for c in range(classes)
    )
    return ImageSet(
        name=name,
        split=split,
        images=images,
        starts=starts,
        classes=names,
        mean=(0.5,),
        std=(0.25,),
        hash=content_hash(images, starts, names),
        # As in a real file: classes alternate.
        order=np.arange(n).reshape(per_class, classes).T.reshape(-1).copy(),
    )


class Known(Method):
    """Reads the class off the pixels and keeps a table from class to label."""

    name: ClassVar[str] = "known"

    def begin(self, info: StreamInfo) -> None:
        self.about = info
        self.table: list[dict[tuple[str, int], int]] = [{} for _ in info.seeds]
        self.seen = 0

    def learn(self, task: Task) -> None:
        images, _ = task.sets
        for table, rows, labels in zip(self.table, task.demos, task.demo_labels, strict=True):
            self.forget(table)
            for row, label in zip(rows.tolist(), labels.tolist(), strict=True):
                table[images.name, int(images.images[row, 0, 0, 0])] = label
        self.seen += task.demos.shape[1]

    def forget(self, table: dict[tuple[str, int], int]) -> None:
        """Nothing is forgotten."""

    def predict(self, images: ImageSet, index: Tensor) -> Tensor:
        rows = rows_for(index, len(self.table))
        logits = torch.zeros(*rows.shape, self.about.n_outputs)
        for r, table in enumerate(self.table):
            for q, c in enumerate(images.images[rows[r].numpy(), 0, 0, 0].tolist()):
                logits[r, q, self.answer(table, images.name, c)] = 1
        return logits

    def answer(self, table: dict[tuple[str, int], int], name: str, c: int) -> int:
        # Classes not learned yet get a label that theirs will not be when labels follow class numbers.
        label = table.get((name, c), -1 - c)
        return label if label >= 0 else -label % self.about.n_outputs

    def cost(self) -> Cost:
        return Cost(examples=self.seen, gradient_steps=0, state_bytes=0)


class OnlyLast(Known):
    """Right on the task it learned last, wrong on all others."""

    name: ClassVar[str] = "only-last"

    def forget(self, table: dict[tuple[str, int], int]) -> None:
        for key, label in table.items():
            table[key] = min(label, -1 - label)  # answered with the label behind it from now on


class AlwaysZero(Known):
    """Answers label 0 whatever is asked."""

    name: ClassVar[str] = "always-zero"

    def answer(self, table: dict[tuple[str, int], int], name: str, c: int) -> int:
        return 0


def small_learner(n_classes: int, **changes: Any) -> Learner:
    """A learner with random weights for 8 x 8 images."""
    torch.manual_seed(n_classes)
    config = LearnerConfig(
        n_classes=n_classes, channels=1, height=8, width=8, model_width=16, heads=2, dropout=0.1,
        encoder=EncoderConfig(kind="identity"), **changes,
    )  # fmt: skip
    return Learner(config)


def known_entry(method: Method, *, name: str = "known", fingerprint: str = "f") -> Entry:
    """A hand-made method as an entry on coded sets."""
    return Entry(
        name=name,
        method=method,
        fingerprint=fingerprint,
        load=lambda ref: coded_set(ref.name, ref.split),
        trained=Provenance(recipe=method.name),
    )
