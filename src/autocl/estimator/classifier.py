"""ContinualClassifier: a meta-learned learner behind scikit-learn's interface.

Shape legend: n = images, F = features, N = outputs of the learner, K = classes seen so far.
"""

import copy
from collections.abc import Hashable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_array, validate_data
from torch import Tensor

from autocl.encoders.backbones import Backbone
from autocl.errors import AutoclError, FileError, InputError
from autocl.estimator.backbone import PHOTOS, find_backbone, to_features
from autocl.estimator.encoded import Encoded
from autocl.estimator.exact import answer, encode, notice, show
from autocl.estimator.hooks import Forgetting, NoticingNovelty
from autocl.estimator.inputs import (
    InputTypeError,
    check_image_shape,
    check_vectors,
    check_weights,
    listed,
    takes_vectors,
)
from autocl.estimator.labels import as_array, check_savable, ordered, read_labels, some
from autocl.estimator.locking import OneWriter
from autocl.estimator.overflow import Overflow, make_room
from autocl.estimator.preprocess import Form, ImageShape, is_pictures, to_input
from autocl.estimator.report import Report, make_report
from autocl.estimator.state import (
    KeptForm,
    Memory,
    Options,
    check_memory,
    fitting,
    read_memory,
    without,
    write_memory,
)
from autocl.learner import Learner
from autocl.learner.find import find_learner
from autocl.learner.state import LearnerState

Floats = npt.NDArray[np.float64]


class UnfittedError(AutoclError, NotFittedError):  # type: ignore[misc]
    """The classifier was asked before it was shown anything."""


class ContinualClassifier(ClassifierMixin, OneWriter):  # type: ignore[misc]
    """Learns images from a stream, new classes at any time, one forward pass for each demo, no gradients.

    All it knows of the stream is a state of constant size. `partial_fit` of a and then b gives, bit for bit,
    what `partial_fit` of a + b gives, and predictions do not depend on what else is asked in the same call
    (float32 on the CPU; see `autocl.estimator.exact` for how). Images are uint8 or float arrays
    [n, height, width] or [n, height, width, channels], or lists of file paths, Pillow images or arrays; all
    are resized and standardised, each by itself; or what `encode` made of them. Vectors [n, length] are taken
    for flattened images only if `image_shape` says so; else the learner must be one for vectors. Threads may
    share a classifier: they learn one after the other, and predict at any time.

    Args:
        learner: a name in the zoo (`autocl zoo` lists them), the path of a file or of a run, or a `Learner`.
        image_shape: how vectors are images: (height, width) or (height, width, channels); "pad" lays
            vectors of any length out in a square. None: they are not.
        overflow: when there are more classes than the learner has outputs: "error", or "ensemble": further
            states of the same learner take further classes; `autocl.estimator.overflow` says how they decide
            together.
        prequential: predict demos of known classes before learning them, for `report_`: the first, then
            one in `test_every` of the learner.
        device: where to compute, such as "cpu" or "cuda"; None: where the learner is.
        backbone: a frozen network that images pass first (`autocl.encoders.backbones`), for a learner of
            vectors. ContinualClassifier("photos") has its own, and a map made for it.

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
        >>> X = X.reshape(-1, 8, 8)
        >>> _ = clf.partial_fit(X[:5], y[:5]).partial_fit(X[5:6], ["five"])
        >>> clf.n_seen_, len(clf.classes_), clf.predict_proba(X[6:8]).shape
        (6, 6, (2, 6))
    """

    _memory: Memory
    _form: Form
    _backbone: tuple[object, Backbone]
    _learner: Learner

    def __init__(
        self,
        learner: str | Path | Learner = "everyday",
        *,
        image_shape: ImageShape = None,
        overflow: Overflow = "error",
        prequential: bool = True,
        device: str | torch.device | None = None,
        backbone: str | Backbone | None = None,
    ) -> None:
        self.learner = learner
        self.image_shape = image_shape
        self.overflow = overflow
        self.prequential = prequential
        self.device = device
        self.backbone = backbone

    def fit(self, X: Any, y: Any, **refused: Any) -> Self:
        """Forget everything, then learn these demos; arguments as in `partial_fit`."""
        _refuse(refused)
        with self._writing():
            self._learn(X, y, classes=None, afresh=True)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, **refused: Any) -> Self:
        """Learn more demos, one after the other, of known and of new classes.

        Args:
            X: images.
            y: their labels: text, numbers, any hashable values. Equal ones (1, 1.0 and True) are one class.
            classes: labels to announce (scikit-learn's convention); nothing needs to be announced.
            refused: `sample_weight` has no meaning here.

        Raises:
            StateError: the state would no longer be finite; the old one stands.
        """
        _refuse(refused)
        with self._writing():
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
        sorted_: Floats = _shares(self._scores(X, memory))[:, ordered(memory.labels)[1]]
        return sorted_

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Labels [n]."""
        memory = self._known()
        answers: npt.NDArray[Any] = as_array(list(memory.labels))[self._scores(X, memory).argmax(1)]
        return answers

    def predict_topk(self, X: Any, k: int = 5) -> tuple[npt.NDArray[Any], Floats]:
        """The k most probable labels [n, k], best first, and their probabilities; fewer if fewer are known.

        Example:
            >>> from autocl import Learner, LearnerConfig
            >>> clf = ContinualClassifier(Learner(LearnerConfig())).fit([np.eye(16)], ["eye"])
            >>> labels, shares = clf.predict_topk([np.eye(16)], k=3)
            >>> labels.tolist(), shares.tolist()
            ([['eye']], [[1.0]])
        """
        if not isinstance(k, int | np.integer) or k < 1:
            raise InputError(f"k={k!r} is not possible: ask for at least 1 label")
        memory = self._known()
        shares = _shares(self._scores(X, memory))
        best = np.argsort(-shares, axis=1, kind="stable")[:, :k]
        return as_array(list(memory.labels))[best], np.take_along_axis(shares, best, 1)

    def encode(self, X: Any) -> Encoded:
        """Pass images through the encoder once; the result stands for them in every other method.

        Bit for bit the same comes out. It also serves other classifiers with the same learner, which then
        share its weights.

        Example:
            >>> from autocl import Learner, LearnerConfig
            >>> clf = ContinualClassifier(Learner(LearnerConfig()))
            >>> seen = clf.encode([np.eye(16)])
            >>> clf.partial_fit(seen, ["eye"]).predict(seen).tolist()
            ['eye']
        """
        fitted = self.__sklearn_is_fitted__()
        learner, form = (self._learner, self._form) if fitted else (self._start(X), {})
        features, form = self._features(X, learner, form, learning=False)
        return Encoded(features=features, learner=learner, named=(self.learner, self.backbone), form=form)

    def novelty(self, X: Any) -> Floats:
        """How unlike everything learned so far images are: [n], from 0 to 1.

        A learner that notices novelty (`autocl.estimator.hooks`) says so itself. For all others it is one
        minus the highest probability: doubt between the known classes, which is 0 with a single class, and
        which an image of an unknown class need not raise. Choose a threshold on images of your own.
        """
        memory = self._known()
        if not isinstance(self._learner, NoticingNovelty):
            doubt: Floats = 1.0 - _shares(self._scores(X, memory)).max(1)
            return doubt
        f, _ = self._features(X, self._learner, self._form, learning=False)
        return notice(self._learner, memory, f).double().cpu().numpy()

    def forget(self, label: Hashable) -> Self:
        """Forget a class as if it had never been shown, or refuse: never only in part.

        Raises:
            InputError: the class is unknown, or the learner cannot do it (`autocl.estimator.hooks`).
        """
        with self._writing():
            memory = self._known()
            (label,) = read_labels([label])
            if label not in memory.labels:
                raise InputError(f"label {label!r} was never learned; known are {some(memory.labels)}")
            if not isinstance(self._learner, Forgetting) or len(memory.members) > 1:
                why = (
                    "classes are spread over an ensemble" if len(memory.members) > 1 else
                    "its state mixes the demos of all classes"
                )  # fmt: skip
                raise InputError(
                    f"this learner cannot forget {label!r} exactly: {why}. Roll back to a snapshot from "
                    "before it came, or learn the other classes again"
                )
            place = memory.labels.index(label)
            self._memory = without(memory, place, self._learner.forget(memory.members[0], place))
        return self

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
        return float(np.average(right, weights=check_weights(sample_weight, len(right))))

    def reset(self) -> Self:
        """Forget everything, as if never fitted."""
        with self._writing():
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
        known = set(self._known().labels)
        row: dict[str, float] = {}
        learned = []
        for name, (X, y) in probes.items():
            answers = self.predict(X)
            labels = read_labels(y, len(answers))
            row[name] = float(np.mean([a == b for a, b in zip(answers.tolist(), labels, strict=True)]))
            if set(labels) <= known:
                learned.append(name)
        with self._writing():
            memory = self._known()
            learned_at = {**dict.fromkeys(learned, len(memory.rows)), **memory.learned_at}
            self._memory = replace(memory, rows=(*memory.rows, row), learned_at=learned_at)
        return row

    def snapshot(self) -> Memory:
        """All that was learned so far, as a value: keep it, and `rollback` to it whenever you like."""
        return self._known()

    def rollback(self, memory: Memory) -> Self:
        """Go back (or forth) to a snapshot of this classifier or of one with the same learner."""
        with self._writing():
            learner = self._learner if self.__sklearn_is_fitted__() else self._find()
            if not fitting(memory, learner):
                raise InputError(
                    "this snapshot was taken with another learner: roll back to one of this one's"
                )
            self._learner, self._form, self._memory = learner, getattr(self, "_form", {}), memory
        return self

    def save(self, path: str | Path, notes: Mapping[str, str] | None = None) -> None:
        """Write all that was learned to one file; the learner's weights are not in it, its name is.

        Args:
            path: the file.
            notes: text to keep in its metadata, by name; `load` does not look at it.
        """
        with self._writing():
            memory, form, learner = self._known(), self._form, self._learner
        source = str(self.learner) if isinstance(self.learner, str | Path) else None
        options: Options = {
            "form": cast("KeptForm", form), "image_shape": check_image_shape(self.image_shape),
            "overflow": self.overflow, "prequential": bool(self.prequential),
        }  # fmt: skip
        write_memory(
            path, memory, options=options, learner=learner.fingerprint(), source=source, notes=notes or {}
        )

    @classmethod
    def load(
        cls,
        path: str | Path,
        learner: str | Path | Learner | None = None,
        *,
        device: str | torch.device | None = None,
        backbone: str | Backbone | None = None,
    ) -> Self:
        """Read what `save` wrote, in this or another process, and go on learning bit for bit.

        Args:
            path: the file.
            learner: needed when the classifier had a `Learner` instead of a name or path.
            device: where to compute.
            backbone: needed when the classifier had a `Backbone` instead of the name of one.
        """
        saved = read_memory(path)
        source = saved.source if learner is None else learner
        if source is None:
            raise InputError(f"{path} does not say where its learner is: pass learner=…, as when it was made")
        options = saved.options
        clf = cls(
            source, image_shape=options["image_shape"], overflow=options["overflow"],
            prequential=options["prequential"], device=device,
            backbone=backbone or (None if source == "photos" else options["form"].get("backbone")),
        )  # fmt: skip
        clf._form = dict(options["form"])
        clf._learner = clf._find()
        if clf._learner.any_length and "vectors" in clf._form:
            clf._learner = clf._learner.with_features(clf._form["vectors"])
        mine = clf._learner.fingerprint()
        if mine != saved.learner:
            raise FileError(
                f"{path}: was learned with learner {saved.learner}, but {source} is {mine}: a state means "
                "nothing to other weights. Pass the learner it was made with"
            )
        check_memory(path, saved.memory, clf._learner)
        clf._memory = saved.memory.to(clf._learner.device)
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
        learner = self._start(X) if afresh else self._learner
        before = {k: v for k, v in vars(self).items() if k in ("n_features_in_", "feature_names_in_")}
        try:
            f, form = self._features(X, learner, {} if afresh else self._form, learning=True)
            labels = read_labels(y, len(f))
            old = Memory(members=(learner.initial_state().fork(),)) if afresh else self._memory
            announced = [] if classes is None else read_labels(classes)
            memory = make_room(learner, old, [*announced, *labels], overflow=self.overflow)
            check_savable(memory.labels[len(old.labels) :])
            outputs = {label: i for i, label in enumerate(memory.labels)}
            y_out = [outputs[label] for label in labels]
            memory = show(learner, memory, f, y_out, test=self.prequential)
        except Exception:
            for name in ("n_features_in_", "feature_names_in_"):
                self.__dict__.pop(name, None)
            self.__dict__.update(before)
            raise
        self._learner, self._form, self._memory = learner, form, memory

    def _scores(self, X: Any, memory: Memory) -> Floats:
        """[n, K] in the order of `memory.labels`, -inf at classes that were only announced."""
        f, _ = self._features(X, self._learner, self._form, learning=False)
        return answer(self._learner, memory, f).double().cpu().numpy()

    def _features(self, X: Any, learner: Learner, form: Form, *, learning: bool) -> tuple[Tensor, Form]:
        """Features [n, F] of X, and the form X has."""
        if isinstance(X, Encoded):
            X.check_fits(learner, form)
            return X.features, {**X.form, **form}
        x, form = self._images(X, learner, form, learning=learning)
        return encode(learner, x), form

    def _images(self, X: Any, learner: Learner, form: Form, *, learning: bool) -> tuple[Tensor, Form]:
        """Network input [n, C, H, W] for X, and the form X has."""
        shape = check_image_shape(self.image_shape)
        if (network := self._network()) is not None:
            return to_features(listed(X), network, form)

        def vectors(X: Any) -> Any:
            known = "vectors" in form
            try:
                read = validate_data(self, X, reset=not known) if learning or known else check_array(X)
            except TypeError as error:
                raise InputTypeError(str(error)) from error
            except ValueError as error:
                raise InputError(str(error)) from error
            return check_vectors(read, learner.config, shape)

        return to_input(listed(X), learner.config, form, image_shape=shape, read_vectors=vectors)

    def _network(self) -> Backbone | None:
        """The backbone, found once."""
        named = self.backbone
        if self.learner == PHOTOS[0]:
            if named not in (None, PHOTOS[1]):
                raise InputError(
                    f'"photos" was made for backbone {PHOTOS[1]!r}, not {named!r}: '
                    'use ContinualClassifier("vectors", backbone=…)'
                )
            named = PHOTOS[1]
        if named is None:
            return None
        found: tuple[object, Backbone] | None = self.__dict__.get("_backbone")
        if found is None or found[0] is not named:
            found = self._backbone = (named, find_backbone(named))
        return found[1]

    def _find(self) -> Learner:
        """The learner, on the device that was asked for; the caller's own module is not moved."""
        learner = find_learner(self.learner)
        if self.device is None:
            return learner
        try:
            trial = torch.ones((), device=self.device)
            trial.item()  # the meta device has no numbers
        except (RuntimeError, AssertionError, TypeError, ValueError, NotImplementedError) as error:
            reason = str(error).splitlines()[0]
            raise InputError(f"device={self.device!r} cannot be used here: {reason}") from error
        return (copy.deepcopy(learner) if learner is self.learner else learner).to(trial.device)

    def _start(self, X: Any) -> Learner:
        """The learner to begin with; one for vectors of any length, for those of X."""
        if isinstance(X, Encoded):
            X.check_named((self.learner, self.backbone))
            return X.learner
        learner = self._find()
        if (network := self._network()) is not None:
            return learner.with_features(network.n_features)
        if not learner.any_length or is_pictures(X):
            return learner
        shape = np.shape(X) if hasattr(X, "shape") else np.shape(np.asarray(X, dtype=object))
        return learner.with_features(shape[1]) if len(shape) == 2 and shape[1] else learner

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
        learner = self.__dict__.get("_learner", self.learner)
        vectors = isinstance(learner, Learner) and takes_vectors(learner.config)
        tags.input_tags.two_d_array = self.image_shape is not None or vectors
        # Made for images: on the two-column blobs of scikit-learn's checks it has nothing to look at.
        tags.classifier_tags.poor_score = True
        return tags


def _shares(scores: Floats) -> Floats:
    """Softmax over the last axis."""
    shares: Floats = np.exp(scores - scores.max(1, keepdims=True))
    shares /= shares.sum(1, keepdims=True)
    return shares


def _refuse(arguments: dict[str, Any]) -> None:
    if arguments.pop("sample_weight", None) is not None:
        raise InputError(
            "sample_weight has no meaning here: each demo is one step of a learned algorithm, which knows no "
            "weights. Leave demos out, or show them again"
        )
    if arguments:
        raise InputTypeError(f"unexpected arguments: {', '.join(arguments)}")
