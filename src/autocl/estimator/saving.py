"""The file of a ContinualClassifier: written, read and checked; and snapshots, which need no file.

All that was learned is in one safetensors file. The learner's weights are not in it, its name and fingerprint
are.
"""

import json
from collections.abc import Hashable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self, TypedDict, cast

import torch
from torch import Tensor

from autocl.encoders.backbones import Backbone
from autocl.errors import FileError, InputError
from autocl.estimator.base import EstimatorBase
from autocl.estimator.inputs import check_image_shape
from autocl.estimator.labels import from_json, to_json
from autocl.estimator.state import ClassifierState, fits
from autocl.files import check_tensors, read_tensors, write_tensors
from autocl.learner import Learner
from autocl.learner.state import LearnerState
from autocl.typed_json import parse_json


class Savable(EstimatorBase):
    """An estimator that keeps what was learned, in memory or in a file, and goes back to it."""

    def snapshot(self) -> ClassifierState:
        """All that was learned so far, as a value: keep it, and `rollback` to it whenever you like."""
        return self._known()

    def rollback(self, memory: ClassifierState) -> Self:
        """Go back (or forth) to a snapshot of this classifier or of one with the same learner."""
        with self._writing():
            learner = self._learner if self.__sklearn_is_fitted__() else self._find()
            if not fits(memory, learner):
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
        kept: _Kept = {
            "labels": [to_json(label) for label in memory.labels],
            "counts": list(memory.counts),
            "tested": memory.n_tested,
            "right": memory.n_correct,
            "last": memory.last_demo and memory.last_demo[1:],
            "rows": [dict(row) for row in memory.evaluations],
            "learned_at": dict(memory.learned_at),
            "members": len(memory.members),
            "form": {
                "form": cast("KeptForm", form), "image_shape": check_image_shape(self.image_shape),
                "overflow": self.overflow, "prequential": bool(self.prequential),
            },
            "source": str(self.learner) if isinstance(self.learner, str | Path) else None,
        }  # fmt: skip
        tensors = {
            f"{i}/{name}": t for i, state in enumerate(memory.members) for name, t in state.tensors.items()
        }
        if memory.last_demo is not None:
            tensors["last"] = memory.last_demo[0]
        meta = {"kind": "classifier", "learner": learner.fingerprint(), "memory": json.dumps(kept)}
        write_tensors(path, tensors, {**(notes or {}), **meta})

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
        memory, kept, made_with = read_classifier(path)
        source = kept["source"] if learner is None else learner
        if source is None:
            raise InputError(f"{path} does not say where its learner is: pass learner=…, as when it was made")
        options = kept["form"]
        clf = cls(
            source, image_shape=options["image_shape"], overflow=options["overflow"],
            prequential=options["prequential"], device=device,
            backbone=backbone or (None if source == "photos" else options["form"].get("backbone")),
        )  # fmt: skip
        clf._form = dict(options["form"])
        clf._learner = clf._find(vectors="vectors" in clf._form)
        if clf._learner.any_length and "vectors" in clf._form:
            clf._learner = clf._learner.with_features(clf._form["vectors"])
        mine = clf._learner.fingerprint()
        if mine != made_with:
            raise FileError(
                f"{path}: was learned with learner {made_with}, but {source} is {mine}: a state means "
                "nothing to other weights. Pass the learner it was made with"
            )
        memory = replace(memory, members=tuple(map(clf._learner.renewed, memory.members)))
        check_classifier(path, memory, clf._learner)
        clf._memory = memory.to(clf._learner.device)
        if "vectors" in clf._form:
            clf.n_features_in_ = clf._form["vectors"]
        return clf


class KeptForm(TypedDict, total=False):
    """The shape of an estimator's input; see `autocl.estimator.preprocess.Form`."""

    vectors: int
    images: tuple[int, ...]
    backbone: str
    weights: str


class Options(TypedDict):
    """Options that are saved with what was learned."""

    form: KeptForm
    image_shape: tuple[int, ...] | Literal["pad"] | None
    overflow: Literal["error", "ensemble"]
    prequential: bool


class _Kept(TypedDict):
    """The JSON part of a file."""

    labels: list[Any]
    counts: list[int]
    tested: int
    right: int
    last: tuple[int, int] | None
    rows: list[dict[str, float]]
    learned_at: dict[str, int]
    members: int
    form: Options
    source: str | None


def read_classifier(path: str | Path) -> tuple[ClassifierState, _Kept, str]:
    """What a file holds, and the fingerprint of its learner; with that one `check_classifier` must follow."""
    tensors, meta = read_tensors(path, kind="classifier")
    kept = parse_json(meta.get("memory", ""), _Kept, where=f"{path}, memory")
    try:
        labels = tuple(from_json(label) for label in kept["labels"])
        _check_counts(kept, labels, len(tensors))
        memory = ClassifierState(
            members=_members(tensors, kept["members"]),
            labels=labels,
            counts=tuple(kept["counts"]),
            n_tested=kept["tested"],
            n_correct=kept["right"],
            last_demo=None if kept["last"] is None else (tensors["last"], *kept["last"]),
            evaluations=tuple(kept["rows"]),
            learned_at=kept["learned_at"],
        )
        return memory, kept, meta["learner"]
    except (KeyError, TypeError, ValueError) as error:
        raise FileError(
            f"{path}: damaged, or not a classifier of this version of autocl ({error})"
        ) from error


def check_classifier(where: str | Path, memory: ClassifierState, learner: Learner) -> None:
    """Refuse a memory from a file that is not one of this learner's.

    Args:
        where: the file, for messages.
        memory: from `read_classifier`.
        learner: whose it should be.
    """
    for i, member in enumerate(memory.members):
        learner.check_state(f"{where}, member {i}", member)
    N = sum(learner.outputs(member) for member in memory.members)
    # A learner that does not grow has a further state only when all before are full.
    fewest = 0 if learner.grows else N - learner.config.n_classes
    if not N >= len(memory.labels) > fewest:
        raise FileError(
            f"{where}: damaged: {len(memory.labels)} labels for {len(memory.members)} states of {N} outputs"
        )
    if memory.last_demo is not None:
        f, member_at, output = memory.last_demo
        features = torch.empty(learner.encoder.n_features, device="meta")
        check_tensors(where, {"last": f}, {"last": features})
        here = 0 <= member_at < len(memory.members)
        if not (here and 0 <= output < learner.outputs(memory.members[member_at])):
            raise FileError(f"{where}: damaged: the latest demo belongs to no class")


def _check_counts(kept: _Kept, labels: tuple[Hashable, ...], tensors: int) -> None:
    """Raise ValueError unless the numbers can belong together."""
    if not labels or len(set(labels)) != len(labels):
        raise ValueError("labels are missing or repeat")
    if len(kept["counts"]) != len(labels) or min(kept["counts"]) < 0:
        raise ValueError(f"{len(labels)} labels, but counts {kept['counts'][:5]}")
    if not 0 < kept["members"] <= tensors:
        raise ValueError(f"{kept['members']} states in {tensors} tensors")
    if not 0 <= kept["right"] <= kept["tested"] <= sum(kept["counts"]):
        raise ValueError(f"{kept['right']} of {kept['tested']} predictions right")
    for name, first in kept["learned_at"].items():
        if not 0 <= first < len(kept["rows"]) or name not in kept["rows"][first]:
            raise ValueError(f"probe set {name!r} was not measured when it was learned")
    shape = kept["form"]["image_shape"]
    if isinstance(shape, tuple) and not (len(shape) in (2, 3) and min(shape) > 0):
        raise ValueError(f"image_shape {shape}")


def _members(tensors: Mapping[str, Tensor], count: int) -> tuple[LearnerState, ...]:
    """States from tensors named MEMBER/NAME."""
    apart: dict[str, dict[str, Tensor]] = {str(i): {} for i in range(count)}
    for name, t in tensors.items():
        if name != "last":
            member, _, own = name.partition("/")
            apart[member][own] = t
    return tuple(map(LearnerState, apart.values()))
