"""Session: one person's classifier, and the moments of its life that can be gone back to.

A moment is the state after so many changes. States are values, so keeping a moment costs the bytes of one and
going back to it is exact. The pictures themselves are not kept.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np

from autocl.errors import InputError
from autocl.estimator.classifier import ContinualClassifier
from autocl.estimator.exact import NoticingNovelty
from autocl.estimator.inputs import Encoded
from autocl.estimator.state import ClassifierState
from autocl.play.forms import Answer
from autocl.play.guard import Limits, RefusedError, clean_label

Mark = tuple[dict[int, ClassifierState | None], int, int]


class Session:
    """A classifier with a history. Everything that fails leaves it as it was.

    Args:
        name: how it is asked for.
        classifier: that has learned nothing yet.
        limits: how large it may become.
    """

    def __init__(self, name: str, classifier: ContinualClassifier, limits: Limits) -> None:
        self.name = name
        self.limits = limits
        self.moment = 0
        """Changes so far, after going back fewer."""
        self.used = time.time()
        """When it was last asked for, in seconds since 1970."""
        self.kept_bytes = 0
        """Of its states of all moments."""
        self._classifier = classifier
        self._moments: dict[int, ClassifierState | None] = {0: None}

    @property
    def memory(self) -> ClassifierState | None:
        """All that was learned; None: nothing."""
        return self._moments[self.moment]

    @property
    def moments(self) -> list[int]:
        """Those that can be gone back (or forth) to at once."""
        return sorted(self._moments)

    @property
    def classes(self) -> dict[str, int]:
        """Examples of each class, in the order of appearance."""
        memory = self.memory
        return {} if memory is None else dict(zip(map(str, memory.labels), memory.counts, strict=True))

    @property
    def state_bytes(self) -> int:
        """Size of the newest state."""
        return _nbytes(self.memory)

    def predict(self, seen: Encoded) -> list[Answer]:
        """Answers of the learner to pictures, one by one. Nothing changes."""
        by: Literal["learner", "probability"] = (
            "learner" if isinstance(seen.learner, NoticingNovelty) else "probability"
        )
        memory = self.memory
        if memory is None:
            return [{"answers": [], "novelty": 1.0, "novelty_by": by} for _ in range(len(seen))]
        labels = [str(label) for label in self._classifier.classes_]
        shares = self._classifier.predict_proba(seen)
        novelty = self._classifier.novelty(seen) if by == "learner" else 1.0 - shares.max(1)
        order = np.argsort(-shares, axis=1, kind="stable")
        return [
            {
                "answers": [{"label": labels[j], "probability": float(row[j])} for j in best],
                "novelty": float(new),
                "novelty_by": by,
            }
            for row, best, new in zip(shares, order, novelty, strict=True)
        ]

    def learn(self, seen: Encoded, labels: Sequence[str]) -> list[Answer]:
        """Learn pictures one after the other, each a moment; returns what was believed of each just before.

        All of them are learned or none.
        """
        labels = [clean_label(label, self.limits) for label in labels]
        known = {*self.classes, *labels}
        if len(known) > self.limits.classes:
            raise RefusedError(
                422,
                f"{len(known):,} classes: a session has at most {self.limits.classes:,}; nothing was learned",
            )
        before = self.mark()
        beliefs = []
        try:
            for i, label in enumerate(labels):
                beliefs += self.predict(seen[i : i + 1])
                # With nothing to go on from, the classifier may still hold what was gone back from.
                show = self._classifier.fit if self.memory is None else self._classifier.partial_fit
                show(seen[i : i + 1], [label])
                self._append(self._classifier.snapshot())
        except Exception:
            self.undo_to(before)
            raise
        return beliefs

    def mark(self) -> Mark:
        """All that a change could alter, for `undo_to`. Moments are replaced as a whole, never in place."""
        return self._moments, self.moment, self.kept_bytes

    def undo_to(self, mark: Mark) -> None:
        """Be as when the mark was made."""
        self._moments, self.moment, self.kept_bytes = mark
        self._restore()

    def go_to(self, moment: int) -> None:
        """Go to a moment that is kept. Later ones stay until something else is learned."""
        if moment not in self._moments:
            earlier = max(m for m in self._moments if m <= max(moment, 0))
            raise RefusedError(
                409,
                f"moment {moment} is not kept; the nearest before it is {earlier}: go there and learn the "
                "examples after it again",
            )
        self.moment = moment
        self._restore()

    def forget(self, label: str) -> None:
        """Forget a class exactly, or refuse."""
        self._need(label)
        if len(self.classes) == 1:
            self._append(None)
            return
        try:
            self._classifier.forget(label)
        except InputError as error:
            raise RefusedError(409, str(error)) from error
        self._append(self._classifier.snapshot())

    def rename(self, label: str, to: str) -> None:
        """Give a class another name, at all moments."""
        self._need(label)
        to = clean_label(to, self.limits)
        if to != label and any(to in m.labels for m in self._moments.values() if m is not None):
            raise RefusedError(409, f"there is a class {to!r} already: choose another name")
        renamed = {}
        for moment, memory in self._moments.items():
            if memory is not None:
                names = tuple(to if name == label else name for name in memory.labels)
                memory = replace(memory, labels=names)
            renamed[moment] = memory
        self._moments = renamed
        self._restore()

    def adopt(self, classifier: ContinualClassifier, moment: int | None = None) -> None:
        """Go on from what a classifier from a file has learned; its labels become text.

        Args:
            classifier: with the learner of this server.
            moment: the number this gets; default: one more change.
        """
        memory = classifier.snapshot()
        names = tuple(clean_label(str(label), self.limits) for label in memory.labels)
        if len(set(names)) < len(names) or len(names) > self.limits.classes:
            raise RefusedError(
                422,
                f"the state has {len(names):,} classes: at most {self.limits.classes:,}, of different names",
            )
        if moment is not None:
            self.moment = moment - 1
        self._append(replace(memory, labels=names))
        self._classifier = classifier
        self._restore()

    def save(self, path: Path) -> None:
        """Write the newest state as `ContinualClassifier.save` does, with the number of its moment."""
        if self.memory is None:
            raise RefusedError(409, "nothing was learned yet: there is no state to save")
        self._classifier.save(path, notes={"moment": str(self.moment)})

    def drop_history(self) -> int:
        """Keep only the beginning and the present; returns the bytes that are free now."""
        before = self.kept_bytes
        self._moments = {0: None, self.moment: self.memory}
        self.kept_bytes = self.state_bytes
        return before - self.kept_bytes

    def _append(self, memory: ClassifierState | None) -> None:
        if _nbytes(memory) > self.limits.state_bytes:
            raise RefusedError(
                413,
                f"the state would have {_nbytes(memory):,} bytes: a session has at most "
                f"{self.limits.state_bytes:,}; nothing was learned",
            )
        kept = {m: old for m, old in self._moments.items() if m <= self.moment}
        kept[self.moment + 1] = memory
        self.kept_bytes = sum(map(_nbytes, kept.values()))
        most = _nbytes(memory) + self.limits.history_bytes
        for m in sorted(kept)[1:-1]:  # the beginning is kept: from there everything can be learned again
            if self.kept_bytes <= most:
                break
            self.kept_bytes -= _nbytes(kept.pop(m))
        self._moments = kept
        self.moment += 1

    def _restore(self) -> None:
        """Let the classifier be what the moment says, if it says anything."""
        if self.memory is not None:
            self._classifier.rollback(self.memory)

    def _need(self, label: str) -> None:
        if label not in self.classes:
            raise RefusedError(404, f"no class {label[:100]!r} in this session")


def _nbytes(memory: ClassifierState | None) -> int:
    return 0 if memory is None else sum(state.nbytes for state in memory.members)
