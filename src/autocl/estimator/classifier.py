"""ContinualClassifier: a meta-learned learner behind scikit-learn's interface.

Shape legend: n = images, F = features, N = outputs of the learner, K = classes seen so far.
"""

from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from autocl.errors import InputError
from autocl.estimator.exact import (
    Forgetting,
    NoticingNovelty,
    ensure_outputs,
    learn_exact,
    novelty_exact,
    score_exact,
)
from autocl.estimator.inputs import Encoded, InputTypeError, check_weights
from autocl.estimator.labels import check_savable, preview, read_labels, sorted_classes
from autocl.estimator.saving import Savable
from autocl.estimator.state import ClassifierState, Report, make_report, without_class
from autocl.learner.state import LearnerState

Floats = npt.NDArray[np.float64]


class ContinualClassifier(Savable):
    """Learns images from a stream, new classes at any time, one forward pass for each demo, no gradients.

    All it knows of the stream is a state of constant size. `partial_fit` of a and then b gives, bit for bit,
    what `partial_fit` of a + b gives, and predictions do not depend on what else is asked in the same call
    (float32 on the CPU; see `autocl.estimator.exact` for how). Images are uint8 or float arrays
    [n, height, width] or [n, height, width, channels], or lists of file paths, Pillow images or arrays; all
    are resized and standardised, each by itself; or what `encode` made of them. Vectors [n, length] are taken
    for flattened images only if `image_shape` says so; else the learner must be one for vectors, as the one
    is that takes the place of the default learner when vectors come. Threads may share a classifier: they
    learn one after the other, and predict at any time.

    Args:
        learner: a name in the zoo (`autocl zoo` lists them), the path of a file or of a run, or a `Learner`.
        image_shape: how vectors are images: (height, width) or (height, width, channels); "pad" lays
            vectors of any length out in a square. None: they are not.
        overflow: when there are more classes than the learner has outputs: "error", or "ensemble": further
            states of the same learner take further classes; `autocl.estimator.exact` says how they decide
            together.
        prequential: predict demos of known classes before learning them, for `report_`: the first, then
            one in `test_every` of the learner.
        device: where to compute, such as "cpu" or "cuda"; None: where the learner is.
        backbone: a frozen network that images pass first (`autocl.encoders.backbones`), for a learner of
            vectors. The learner "photos" brings its own.

    Attributes:
        classes_: [K], sorted; in the order of appearance if they cannot be.
        n_seen_: demos so far.
        state_: the `LearnerState`; one stream for each member of an ensemble.
        report_: see `autocl.estimator.state.Report`.
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
        scores = self._scores(X, memory)[:, sorted_classes(memory.labels)[1]]
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def predict_proba(self, X: Any) -> Floats:
        """Probabilities [n, K], in the order of `classes_`."""
        memory = self._known()
        sorted_: Floats = _shares(self._scores(X, memory))[:, sorted_classes(memory.labels)[1]]
        return sorted_

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Labels [n]."""
        memory = self._known()
        answers: npt.NDArray[Any] = memory.names[self._scores(X, memory).argmax(1)]
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
        return memory.names[best], np.take_along_axis(shares, best, 1)

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
        """Novelty of images, [n] from 0 (like what was learned) to 1 (unlike all of it).

        A learner that notices novelty (`autocl.estimator.exact`) says so itself. For all others it is one
        minus the highest probability: doubt between the known classes, which is 0 with a single class, and
        which an image of an unknown class need not raise. Choose a threshold on images of your own.
        """
        memory = self._known()
        if not isinstance(self._learner, NoticingNovelty):
            doubt: Floats = 1.0 - _shares(self._scores(X, memory)).max(1)
            return doubt
        f, _ = self._features(X, self._learner, self._form, learning=False)
        return novelty_exact(self._learner, memory, f).double().cpu().numpy()

    def forget(self, label: Hashable) -> Self:
        """Forget a class, or refuse.

        Where demos are kept by class, as sums or prototypes, what is left is the state of a stream without
        that class, with one exception: when `everyday`, `photos` or `vectors` have merged prototypes, because
        the stream was longer than their memory, the spread around merged prototypes stays in a matrix that
        all classes share. Without the last class it is as if never fitted.

        Raises:
            InputError: the class is unknown, or the learner cannot do it (`autocl.estimator.exact`).
        """
        with self._writing():
            memory = self._known()
            (label,) = read_labels([label])
            if label not in memory.labels:
                raise InputError(f"label {label!r} was never learned; known are {preview(memory.labels)}")
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
            self._memory = without_class(memory, place, self._learner.forget(memory.members[0], place))
        return self

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Mean accuracy. A label that was never learned is an error: no answer could be right."""
        answers = self.predict(X).tolist()
        labels = read_labels(y, len(answers))
        if unknown := set(labels) - set(self._known().labels):
            raise InputError(
                f"y holds labels that were never learned: {preview(sorted(unknown, key=repr))}; leave their "
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

    def evaluate(self, probes: Mapping[str, tuple[Any, Any]]) -> dict[str, float]:
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
            learned_at = {**dict.fromkeys(learned, len(memory.evaluations)), **memory.learned_at}
            self._memory = replace(memory, evaluations=(*memory.evaluations, row), learned_at=learned_at)
        return row

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """Labels known so far, [K]."""
        return sorted_classes(self._known().labels)[0]

    @property
    def n_seen_(self) -> int:
        """Demos so far."""
        return self._known().seen

    @property
    def state_(self) -> LearnerState:
        """State of the learner: a value of constant size."""
        members = self._known().members
        return members[0] if len(members) == 1 else LearnerState.cat(list(members))

    @property
    def report_(self) -> Report:
        """Report on the stream so far."""
        return make_report(self._known(), self._learner)

    def _learn(self, X: Any, y: Any, *, classes: Any, afresh: bool) -> None:
        """Everything is checked before anything changes; the new memory replaces the old one at the end."""
        learner = self._start(X) if afresh else self._learner
        before = {k: v for k, v in vars(self).items() if k in ("n_features_in_", "feature_names_in_")}
        try:
            f, form = self._features(X, learner, {} if afresh else self._form, learning=True)
            labels = read_labels(y, len(f))
            old = ClassifierState(members=(learner.initial_state().fork(),)) if afresh else self._memory
            announced = [] if classes is None else read_labels(classes)
            memory = ensure_outputs(learner, old, [*announced, *labels], overflow=self.overflow)
            check_savable(memory.labels[len(old.labels) :])
            outputs = {label: i for i, label in enumerate(memory.labels)}
            y_out = [outputs[label] for label in labels]
            memory = learn_exact(learner, memory, f, y_out, test=self.prequential)
        except Exception:
            for name in ("n_features_in_", "feature_names_in_"):
                self.__dict__.pop(name, None)
            self.__dict__.update(before)
            raise
        self._learner, self._form, self._memory = learner, form, memory

    def _scores(self, X: Any, memory: ClassifierState) -> Floats:
        """[n, K] in the order of `memory.labels`, -inf at classes that were only announced."""
        f, _ = self._features(X, self._learner, self._form, learning=False)
        return score_exact(self._learner, memory, f).double().cpu().numpy()


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
