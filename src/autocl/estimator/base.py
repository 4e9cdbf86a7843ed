"""Base of ContinualClassifier: how it finds its learner and backbone, reads its input, and locks.

Shape legend: n = images, F = features.
"""

import copy
import os
import threading
from pathlib import Path
from typing import Any

import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_array, validate_data
from torch import Tensor

from autocl.encoders.backbones import Backbone, get_backbone
from autocl.errors import AutoclError, InputError
from autocl.estimator.exact import Overflow, encode
from autocl.estimator.inputs import (
    DEFAULT,
    PHOTOS,
    VECTORS,
    Encoded,
    InputTypeError,
    check_image_shape,
    length_of,
    listed,
    to_features,
)
from autocl.estimator.preprocess import Form, ImageShape, is_pictures, to_input
from autocl.estimator.state import ClassifierState
from autocl.learner import Learner
from autocl.learner.find import find_learner


class UnfittedError(AutoclError, NotFittedError):  # type: ignore[misc]
    """The classifier was asked before it was shown anything."""


class EstimatorBase(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The arguments of an estimator, and how they become a learner and its input.

    Writers take turns: `with self._writing(): …`. Readers need no lock.
    """

    _memory: ClassifierState
    _form: Form
    _backbone: tuple[str, Backbone]
    _learner: Learner

    def __init__(
        self,
        learner: str | Path | Learner = DEFAULT,
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

    def _writing(self) -> threading.RLock:
        """The lock of this object in this process: in a forked child its holder may not exist."""
        # Made when first needed: scikit-learn wants nothing but arguments in __init__. setdefault is atomic.
        lock: threading.RLock = self.__dict__.setdefault(f"_lock_{os.getpid()}", threading.RLock())
        return lock

    def __getstate__(self) -> dict[str, Any]:
        """All but its locks, which cannot be pickled."""
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if not name.startswith("_lock_")}

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
                return validate_data(self, X, reset=not known) if learning or known else check_array(X)
            except TypeError as error:
                raise InputTypeError(str(error)) from error
            except ValueError as error:
                raise InputError(str(error)) from error

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
        if isinstance(named, Backbone):
            return named
        if not isinstance(named, str):
            raise InputError(f"backbone={named!r} is neither a name nor a Backbone (see callable_backbone)")
        found: tuple[str, Backbone] | None = self.__dict__.get("_backbone")
        if found is None or found[0] != named:
            found = self._backbone = (named, get_backbone(named))
        return found[1]

    def _find(self, *, vectors: bool = False) -> Learner:
        """The learner, on the device that was asked for; the caller's own module is not moved.

        Args:
            vectors: whether it is to learn vectors that are no images.
        """
        learner = find_learner(VECTORS if vectors and self._has_twin() else self.learner)
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
            if X.named != (self.learner, self.backbone):
                raise InputError(
                    f"these images were encoded by a classifier with learner {X.named[0]!r}, not "
                    f"{self.learner!r}: encode them with one like this"
                )
            return X.learner
        if (network := self._network()) is not None:
            return self._find().with_features(network.n_features)
        X = listed(X)
        length = None if is_pictures(X) else length_of(X)
        learner = self._find(vectors=length is not None)
        return learner if length is None or not learner.any_length else learner.with_features(length)

    def _has_twin(self) -> bool:
        """Whether another learner takes over when vectors come instead of images."""
        return self.image_shape is None and self.backbone is None and self.learner == DEFAULT

    def _known(self) -> ClassifierState:
        memory: ClassifierState | None = self.__dict__.get("_memory")
        if memory is None or not memory.seen:
            raise UnfittedError(
                "this ContinualClassifier has not learned anything yet: call partial_fit or fit first"
            )
        return memory

    def __sklearn_is_fitted__(self) -> bool:
        """Whether there is a demo that has not been forgotten."""
        memory: ClassifierState | None = self.__dict__.get("_memory")
        return memory is not None and memory.seen > 0

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        learner = self.__dict__.get("_learner", self.learner)
        vectors = self._has_twin() or learner == VECTORS
        vectors = vectors or (isinstance(learner, Learner) and learner.takes_vectors)
        tags.input_tags.two_d_array = self.image_shape is not None or vectors
        # A learner of images sees nothing in the two-column blobs of scikit-learn's checks.
        tags.classifier_tags.poor_score = not vectors
        return tags
