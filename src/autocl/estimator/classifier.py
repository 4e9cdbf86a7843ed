"""ContinualClassifier: a meta-learned learner behind scikit-learn's interface.

Shape legend: n = images, F = features, N = outputs of the learner, K = classes seen so far.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_array, validate_data
from torch import Tensor

from autocl.errors import AutoclError, FileError, InputError
from autocl.estimator.exact import answer, encode, show
from autocl.estimator.labels import as_array, ordered, read_labels, some
from autocl.estimator.overflow import Overflow, make_room
from autocl.estimator.preprocess import Form, ImageShape, to_input
from autocl.estimator.report import Report, make_report
from autocl.estimator.state import Memory, fitting, read_memory, write_memory
from autocl.learner import Learner
from autocl.learner.find import find_learner
from autocl.learner.state import LearnerState

Floats = npt.NDArray[np.float64]


class UnfittedError(AutoclError, NotFittedError):  # type: ignore[misc]
    """The classifier was asked before it was shown anything."""


class ContinualClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Learns images from a stream, new classes at any time, one forward pass for each demo, no gradients.

    All it knows of the stream is a state of constant size. `partial_fit` of a and then b gives, bit for bit,
    what `partial_fit` of a + b gives, and predictions do not depend on what else is asked in the same call
    (float32 on the CPU; see `autocl.estimator.exact` for how). Images are uint8 or float arrays
    [n, height, width] or [n, height, width, channels], flattened vectors, or lists of file paths, Pillow
    images or arrays; all are resized and standardised, each by itself. One thread may learn while others
    predict.

    Args:
        learner: a name in the zoo (`autocl zoo` lists them), the path of a file or of a run, or a `Learner`.
        image_shape: how vectors are images: (height, width) or (height, width, channels). None infers a
            square, gray or colour; "pad" lays vectors of any length out in a square.
        overflow: when there are more classes than the learner has outputs: "error", or "ensemble": further
            states of the same learner take further classes; `autocl.estimator.overflow` says how they decide
            together.
        prequential: predict every demo of a known class before learning it, for `report_`.

    Attributes:
        classes_: [K], sorted; in the order of appearance if they cannot be.
        n_seen_: demos so far.
        state_: the `LearnerState`; one stream for each member of an ensemble.
        report_: see `autocl.estimator.report.Report`.
        n_features_in_: length of vectors, if vectors came.

    Example:
        >>> from sklearn.datasets import load_digits
        >>> from autocl import Learner, LearnerConfig
        >>> X, y = load_digits(return_X_y=True)
        >>> clf = ContinualClassifier(Learner(LearnerConfig(n_classes=10)))  # or the name of a trained one
        >>> _ = clf.partial_fit(X[:5], y[:5]).partial_fit(X[5:6], ["five"])
        >>> clf.n_seen_, len(clf.classes_), clf.predict_proba(X[6:8]).shape
        (6, 6, (2, 6))
    """

    _memory: Memory
    _form: Form
    _learner: Learner

    def __init__(
        self,
        learner: str | Path | Learner = "everyday",
        *,
        image_shape: ImageShape = None,
        overflow: Overflow = "error",
        prequential: bool = True,
    ) -> None:
        self.learner = learner
        self.image_shape = image_shape
        self.overflow = overflow
        self.prequential = prequential

    def fit(self, X: Any, y: Any) -> Self:
        """Forget everything, then learn these demos."""
        self._learn(X, y, classes=None, afresh=True)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Learn more demos, one after the other, of known and of new classes.

        Args:
            X: images.
            y: their labels; any hashable values.
            classes: labels to announce (scikit-learn's convention); nothing needs to be announced.
        """
        self._learn(X, y, classes=classes, afresh=not self.__sklearn_is_fitted__())
        return self

    def decision_function(self, X: Any) -> Floats:
        """Scores [n, K], in the order of `classes_`; with two classes [n], positive for the second."""
        memory = self._known()
        scores = self._scores(X, memory)[:, ordered(memory.labels)[1]]
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def predict_proba(self, X: Any) -> Floats:
        """Probabilities [n, K], in the order of `classes_`."""
        memory = self._known()
        scores = self._scores(X, memory)
        shares = np.exp(scores - scores.max(1, keepdims=True))
        shares /= shares.sum(1, keepdims=True)
        sorted_: Floats = shares[:, ordered(memory.labels)[1]]
        return sorted_

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Labels [n]."""
        memory = self._known()
        answers: npt.NDArray[Any] = as_array(list(memory.labels))[self._scores(X, memory).argmax(1)]
        return answers

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Mean accuracy. A label that was never learned is an error: no answer could be right."""
        answers = self.predict(X).tolist()
        labels = read_labels(y, len(answers))
        if unknown := set(labels) - set(self._known().labels):
            raise InputError(
                f"y holds labels that were never learned: {some(sorted(unknown, key=repr))}; leave their "
                "images out or learn them first"
            )
        right = [answer == label for answer, label in zip(answers, labels, strict=True)]
        return float(np.average(right, weights=sample_weight))

    def reset(self) -> Self:
        """Forget everything, as if never fitted."""
        for name in ("_memory", "_form", "_learner", "n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)
        return self

    def checkpoint(self, probes: Mapping[str, tuple[Any, Any]]) -> dict[str, float]:
        """Measure the accuracy on probe sets, and keep it for `report_`.

        Call it after each task, with the tasks learned so far (or all): the rows make the accuracy matrix.

        Args:
            probes: images and labels by name. Labels not learned yet count as wrong.

        Returns:
            Accuracy by name.
        """
        memory = self._known()
        row: dict[str, float] = {}
        learned_at = dict(memory.learned_at)
        for name, (X, y) in probes.items():
            answers = self.predict(X)
            labels = read_labels(y, len(answers))
            row[name] = float(np.mean([a == b for a, b in zip(answers.tolist(), labels, strict=True)]))
            if set(labels) <= set(memory.labels):
                learned_at.setdefault(name, len(memory.rows))
        self._memory = replace(memory, rows=(*memory.rows, row), learned_at=learned_at)
        return row

    def snapshot(self) -> Memory:
        """All that was learned so far, as a value: keep it, and `rollback` to it whenever you like."""
        return self._known()

    def rollback(self, memory: Memory) -> Self:
        """Go back (or forth) to a snapshot of this classifier or of one with the same learner."""
        if not fitting(memory, self._ready_learner()):
            raise InputError("this snapshot was taken with another learner: roll back to one of this one's")
        self._memory, self._learner = memory, self._ready_learner()
        self._form = getattr(self, "_form", {})
        return self

    def save(self, path: str | Path) -> None:
        """Write all that was learned to one file; the learner's weights are not in it, its name is."""
        memory = self._known()
        source = str(self.learner) if isinstance(self.learner, str | Path) else None
        form = {
            "form": self._form, "image_shape": self.image_shape, "overflow": self.overflow,
            "prequential": self.prequential,
        }  # fmt: skip
        write_memory(path, memory, form=form, learner=self._learner.fingerprint(), source=source)

    @classmethod
    def load(cls, path: str | Path, learner: str | Path | Learner | None = None) -> Self:
        """Read what `save` wrote, in this or another process, and go on learning bit for bit.

        Args:
            path: the file.
            learner: needed when the classifier had a `Learner` instead of a name or path.
        """
        saved = read_memory(path)
        source = saved.source if learner is None else learner
        if source is None:
            raise InputError(f"{path} does not say where its learner is: pass learner=…, as when it was made")
        try:
            form = dict(saved.form)
            shape = form["image_shape"]
            clf = cls(
                source,
                image_shape=tuple(shape) if isinstance(shape, list) else shape,
                overflow=form["overflow"],
                prequential=form["prequential"],
            )
            clf._form = {k: tuple(v) if isinstance(v, list) else v for k, v in form["form"].items()}
        except (KeyError, TypeError, ValueError) as error:
            raise FileError(f"{path}: not a classifier of this version of autocl ({error!r})") from error
        clf._learner = find_learner(source)
        mine = clf._learner.fingerprint()
        if mine != saved.learner:
            raise FileError(
                f"{path}: was learned with learner {saved.learner}, but {source} is {mine}: a state means "
                "nothing to other weights. Pass the learner it was made with"
            )
        if not fitting(saved.memory, clf._learner):
            raise FileError(f"{path}: damaged: its state does not have the shape of its learner's")
        clf._memory = saved.memory
        if "vectors" in clf._form:
            clf.n_features_in_ = clf._form["vectors"]
        return clf

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """Labels known so far, [K]."""
        return ordered(self._known().labels)[0]

    @property
    def n_seen_(self) -> int:
        """Demos so far."""
        return self._known().seen

    @property
    def state_(self) -> LearnerState:
        """What the learner knows: a value of constant size."""
        members = self._known().members
        return members[0] if len(members) == 1 else LearnerState.stack(list(members))

    @property
    def report_(self) -> Report:
        """What the classifier can say about its own stream."""
        return make_report(self._known(), self._learner)

    def _learn(self, X: Any, y: Any, *, classes: Any, afresh: bool) -> None:
        """Everything is checked before anything changes; the new memory replaces the old one at the end."""
        learner = find_learner(self.learner) if afresh else self._learner
        before = {k: v for k, v in vars(self).items() if k in ("n_features_in_", "feature_names_in_")}
        try:
            x, form = self._images(X, learner, {} if afresh else self._form, learning=True)
            labels = read_labels(y, len(x))
            old = Memory(members=(learner.initial_state().fork(),)) if afresh else self._memory
            announced = [] if classes is None else read_labels(classes, len(classes))
            memory = make_room(learner, old, [*announced, *labels], overflow=self.overflow)
        except Exception:
            for name in ("n_features_in_", "feature_names_in_"):
                self.__dict__.pop(name, None)
            self.__dict__.update(before)
            raise
        outputs = {label: i for i, label in enumerate(memory.labels)}
        y_out = [outputs[label] for label in labels]
        memory = show(learner, memory, encode(learner, x), y_out, test=self.prequential)
        self._learner, self._form, self._memory = learner, form, memory

    def _scores(self, X: Any, memory: Memory) -> Floats:
        """[n, K] in the order of `memory.labels`, -inf at classes that were only announced."""
        x, _ = self._images(X, self._learner, self._form, learning=False)
        return answer(self._learner, memory, encode(self._learner, x)).double().cpu().numpy()

    def _images(self, X: Any, learner: Learner, form: Form, *, learning: bool) -> tuple[Tensor, Form]:
        """Network input [n, C, H, W] for X, and the form X has."""

        def vectors(X: Any) -> Any:
            known = "vectors" in form
            return validate_data(self, X, reset=not known) if learning or known else check_array(X)

        return to_input(X, learner.config, form, image_shape=self.image_shape, read_vectors=vectors)

    def _ready_learner(self) -> Learner:
        return self._learner if self.__sklearn_is_fitted__() else find_learner(self.learner)

    def _known(self) -> Memory:
        memory: Memory | None = self.__dict__.get("_memory")
        if memory is None:
            raise UnfittedError(
                "this ContinualClassifier has not learned anything yet: call partial_fit or fit first"
            )
        return memory

    def __sklearn_is_fitted__(self) -> bool:
        return "_memory" in self.__dict__

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        # Made for images: on the two-column blobs of scikit-learn's checks it has nothing to look at.
        tags.classifier_tags.poor_score = True
        return tags
