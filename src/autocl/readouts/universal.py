"""UniversalReadout: closed-form experts over one memory, and a meta-learned combiner of their answers.

It knows neither the encoder nor the number of classes: features of any length, classes at any time. Experts
are examined on the memory itself (leave-one-out); the combiner reads their marks and the shape of the stream,
and decides how much each counts. An expert that fails its examination counts for little, so one that answers
at random does little harm.

Shape legend: B = streams, T = demos, Q = queries, F = features, D = dimensions, M = prototypes, N = classes,
E = experts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from autocl.errors import InputError
from autocl.layers.base import version_of
from autocl.readouts.base import READOUTS, Readout, ReadoutConfig, State
from autocl.readouts.combiner import Combiner, Trust
from autocl.readouts.examination import LONGEST, UNSEEN, Examination, examine
from autocl.readouts.experts import NAMES, Experts, all_experts
from autocl.readouts.memory import FREE, LARGEST, PLACES, UNIT_FROM, Memory, packed
from autocl.readouts.moments import Moments, compiles
from autocl.readouts.shapes import Shapes, widened

if TYPE_CHECKING:
    from autocl.readouts.compiled import Answers


class Answer(NamedTuple):
    """Scores of the experts, and the answer made of them."""

    logits: Tensor
    """[B, Q, N]."""
    novelty: Tensor
    """[B, Q], from 0 (shown before) to 1 (unlike everything shown)."""


class UniversalReadout(Readout):
    """See the module.

    Args:
        n_features: F; 0: whatever the first demo of a stream has.
        shapes: R, directions that are kept of each class for long streams (`shapes.py`).
    """

    per_class = {"count": 1, "directions": 1}  # noqa: RUF012 (a ClassVar of Readout)
    test_every = 64
    any_length = True

    def __init__(self, n_features: int = 0, shapes: int = 0) -> None:
        super().__init__()
        self.n_features, self.shapes = n_features, shapes
        self.combiner = Combiner(len(NAMES))
        self._latest: tuple[State, object, Empty | Prepared | Compiled] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """All but what is kept for speed, which cannot be pickled."""
        return {**self.__dict__, "_latest": None}

    def independent(self, f: Tensor) -> bool:
        """When kernels answer, and features need no projection."""
        return compiles(f) and f.shape[-1] <= LARGEST

    def initial_state(self, batch: int, n_classes: int) -> State:
        """An empty memory, and no demo of any class."""
        like = self.zeros(min(self.n_features, LARGEST))
        memory = Memory.empty(batch, _places(n_classes), like)
        length = torch.full((batch,), self.n_features, device=like.device)
        count = self.zeros(batch, n_classes)
        directions = _directions(count, self.shapes, like.shape[-1])
        return {"count": count, "directions": directions, "length": length, **memory._asdict()}

    def grow(self, state: State, n_classes: int) -> State:
        """Room for more classes; more places, too, when there are many."""
        memory = Memory.of(state)
        if (places := _places(n_classes)) > memory.weight.shape[1]:
            memory = memory.with_places(places)
        return {**super().grow(state, n_classes), **memory._asdict()}

    def learn(self, f: Tensor, y: Tensor, state: State) -> State:
        """Take the demos into the memory, in their order."""
        x = self.key(f)
        state = _of_length(state, f.shape[-1], x)
        count = state["count"].scatter_add(1, y, torch.ones_like(y, dtype=state["count"].dtype))
        before = Memory.of(state)
        memory, mergers = before.learned(x.to(before.prototype.dtype), y)
        merged = state["count"] - before.places_of(count.shape[1])
        directions = widened(state["directions"], merged, mergers)
        return {**state, "count": count, "directions": directions, **memory._asdict()}

    def read(self, f: Tensor, state: State) -> Tensor:
        """Logits [B, Q, N] of queries f [B, Q, F]; far below all others for classes without demos."""
        return self.answer(f, state).logits

    def answer(self, f: Tensor, state: State) -> Answer:
        """Examine the experts, and answer queries f [B, Q, F]."""
        return self.prepare(state)(f)

    def novelty(self, f: Tensor, state: State) -> Tensor:
        """Novelty of queries f [B, Q, F] against everything shown, [B, Q] in 0…1."""
        return self.answer(f, state).novelty

    def forget(self, state: State, label: int) -> State:
        """The state without the prototypes of a class. What its demos added to the scatter, if any, stays."""
        memory = Memory.of(state).without(label)
        moved = torch.where(memory.label > label, memory.label - 1, memory.label)
        of_class = {name: state[name] for name in self.per_class}
        return {**state, **memory._replace(label=moved)._asdict(), **super().forget(of_class, label)}

    def renewed(self, state: State) -> State:
        """Older files know no directions of classes; still older ones hold the scatter as a whole matrix.

        Of that only the lower triangle was ever read.
        """
        D = state["prototype"].shape[-1] if "prototype" in state else 0
        if "scatter" in state and state["scatter"].shape[1:] == (D, D):
            state = {**state, "scatter": packed(state["scatter"])}
        if "directions" not in state and "prototype" in state and "count" in state:
            state = {**state, "directions": _directions(state["count"], self.shapes, D)}
        return state

    def prepare(self, state: State) -> "Empty | Prepared | Compiled":
        """Examine the experts once, for many queries.

        A state that is asked about again and again, as a classifier's is, is examined once: the latest result
        is kept as long as neither the state nor the weights change.
        """
        if torch.is_grad_enabled():
            return self._prepare(state)
        weights = (version_of(self), self.training)
        if self._latest is not None:
            known, of, prepared = self._latest
            if of == weights and all(known.get(name) is t for name, t in state.items()):
                return prepared
        prepared = self._prepare(state)
        self._latest = (dict(state), weights, prepared)
        return prepared

    def _prepare(self, state: State) -> "Empty | Prepared | Compiled":
        if bool((state["label"] == FREE).all()):
            return Empty(state["count"].shape[1])
        moments = moments_of(state)
        if compiles(moments.mean):
            # Imported here because importing numba takes longer than importing all of autocl.
            from autocl.readouts import compiled, preparing

            left_out, plan = preparing.prepare(moments)
            exam = self._exam(left_out, moments)
            trust = self.combiner.judge(exam)
            answers = compiled.Answers.of(plan, trust, self.combiner)
            return Compiled(self, answers, self._shapes(state, moments, exam, trust)[0])
        experts = all_experts(moments)
        exam = self._exam(experts.left_out, moments)
        trust = self.combiner.judge(exam)
        return Prepared(self, moments, experts, trust, self._shapes(state, moments, exam, trust))

    def _shapes(
        self, state: State, moments: Moments, exam: Examination, trust: Trust
    ) -> tuple[Shapes | None, ...]:
        """The shapes of the classes of each stream, where they count."""
        if not self.shapes or float(moments.memory.demos.max()) <= LONGEST:
            return (None,) * len(exam.label)
        answers = self.combiner.answer(exam.left_out, trust)
        return tuple(Shapes.of(b, moments, state["directions"], exam, answers) for b in range(len(answers)))

    def _exam(self, left_out: Tensor, moments: Moments) -> Examination:
        """Marks of the experts, in the combiner's precision."""
        exam, dtype = examine(left_out, moments), self.combiner.reader.out.weight.dtype
        return Examination(*(t.to(dtype) if t.is_floating_point() else t for t in exam))

    def key(self, f: Tensor) -> Tensor:
        """Map of features to what is remembered, [..., F] -> [..., D]; in float32 at least."""
        f = f.to(torch.promote_types(f.dtype, torch.float32))
        if f.shape[-1] > LARGEST:
            f = f @ _projection(f.shape[-1]).to(f)
        return F.normalize(f, dim=-1) if f.shape[-1] >= UNIT_FROM else f

    def merge(self, states: Sequence[State]) -> State:
        """One state for the classes of all states, one after the other."""
        longest = max(states, key=lambda state: int(state["length"][0]))
        length = int(longest["length"][0])
        states = [_of_length(state, length, longest["prototype"]) for state in states]
        sizes = [state["count"].shape[1] for state in states]
        whole = self.grow(states[0], sum(sizes))
        offset = sizes[0]
        for state, size in zip(states[1:], sizes[1:], strict=True):
            memory, other = Memory.of(whole), Memory.of(state)
            label = torch.where(other.label == FREE, FREE, other.label + offset)
            free = int((memory.label == FREE).sum(1).min())
            needed = int((label != FREE).sum(1).max())
            if needed > free:
                memory = memory.with_places(memory.weight.shape[1] + needed - free)
            whole = {**whole, **_joined(memory, other._replace(label=label))._asdict()}
            for name in self.per_class:
                whole[name][:, offset : offset + size] = state[name]
            offset += size
        return whole


@dataclass(frozen=True, eq=False)
class Empty:
    """A read-out that holds no demo of any stream: every class is unseen, every query new."""

    n_classes: int

    def __call__(self, f: Tensor) -> Answer:
        """Answer queries f [B, Q, F]."""
        return Answer(f.new_full((*f.shape[:2], self.n_classes), UNSEEN), f.new_ones(f.shape[:2]))


@dataclass(frozen=True, eq=False)
class Prepared:
    """A read-out whose experts have been examined on one state: answers any number of queries."""

    readout: UniversalReadout
    moments: Moments
    experts: Experts
    trust: Trust
    shapes: tuple[Shapes | None, ...]
    """Of each stream."""

    def __call__(self, f: Tensor) -> Answer:
        """Answer queries f [B, Q, F]."""
        seen = self.trust.demos > 0
        x = self.readout.key(f).double()
        scores = self.experts.read(x).to(self.trust.share.dtype)
        logits = self.readout.combiner.answer(scores, self.trust)
        looked = zip(self.shapes, x, logits, strict=True)
        logits = torch.stack([of if shapes is None else shapes.judge(q, of) for shapes, q, of in looked])
        return Answer(logits.masked_fill(~seen[:, None], UNSEEN).to(f.dtype), self._novelty(x).to(f.dtype))

    def _novelty(self, x: Tensor) -> Tensor:
        """Squared distance to the nearest prototype in units of the spread, squashed to [0, 1)."""
        P = self.moments.memory.prototype
        distance = x.square().sum(-1)[..., None] + P.square().sum(-1)[:, None] - 2 * x @ P.mT
        distance = distance.masked_fill(self.moments.used[:, None] == 0, torch.inf).amin(-1).clamp(min=0)
        return 1 - torch.exp(-distance / (2 * self.moments.spread[..., 0]))


@dataclass(frozen=True, eq=False)
class Compiled:
    """The same as `Prepared`, of one stream on the CPU that holds a demo, by kernels."""

    readout: UniversalReadout
    answers: "Answers"
    shapes: Shapes | None

    def __call__(self, f: Tensor) -> Answer:
        """Answer queries f [1, Q, F]."""
        x = self.readout.key(f)[0].double().contiguous()
        logits, novelty = self.answers(x)
        logits = logits if self.shapes is None else self.shapes.judge(x, logits)
        return Answer(logits[None].to(f.dtype), novelty[None].to(f.dtype))


def moments_of(state: State) -> Moments:
    """Moments of a state for the experts; in float64, since it may hold a million demos."""
    exact = Memory(*(t.double() if t.is_floating_point() else t for t in Memory.of(state)))
    return Moments.of(_used(exact), state["count"].shape[1])


@lru_cache(maxsize=8)
def _projection(length: int) -> Tensor:
    """Orthogonal directions [length, LARGEST], the same on every machine."""
    normal = np.random.default_rng(length).standard_normal((length, LARGEST))
    return torch.from_numpy(np.linalg.qr(normal)[0])


def _directions(count: Tensor, number: int, length: int) -> Tensor:
    """None yet, for each class of count [B, N]: [B, N, R, D]."""
    return torch.zeros(*count.shape, number, length, dtype=torch.float16, device=count.device)


def _places(n_classes: int) -> int:
    return max(PLACES, 2 * n_classes)


def _used(memory: Memory) -> Memory:
    """The memory without places that are free in every stream, which would only cost time."""
    if bool((memory.weight > 1).any()):  # Its first places are a share of all.
        return memory
    taken = (memory.label != FREE).any(0)
    places = max(1, int(taken.nonzero().max()) + 1 if bool(taken.any()) else 1)
    return Memory(
        memory.prototype[:, :places], memory.weight[:, :places], memory.label[:, :places], memory.scatter
    )


def _of_length(state: State, length: int, like: Tensor) -> State:
    """The state with a memory of vectors such as `like` [..., D], made of features of this length.

    Before its first demo a state need not know that. One that knows another length is refused.
    """
    known = int(state["length"][0])
    if known == 0:
        batch, places = state["weight"].shape
        memory = Memory.empty(batch, places, like)
        directions = _directions(state["count"], state["directions"].shape[2], like.shape[-1])
        length_now = torch.full_like(state["length"], length)
        return {**state, "directions": directions, "length": length_now, **memory._asdict()}
    if known != length:
        raise InputError(
            f"the stream began with features of length {known}, these have length {length}: one stream has "
            "features of one length"
        )
    return state


def _joined(memory: Memory, other: Memory) -> Memory:
    """A memory that has taken over the prototypes of another one."""
    place = (memory.label != FREE).to(torch.uint8).argsort(dim=1, stable=True)
    order = (other.label == FREE).to(torch.uint8).argsort(dim=1, stable=True)
    number = int((other.label != FREE).sum(1).max())
    place, order = place[:, :number], order[:, :number]
    rows = place[..., None].expand(-1, -1, memory.prototype.shape[-1])
    return Memory(
        memory.prototype.scatter(1, rows, other.prototype.gather(1, order[..., None].expand_as(rows))),
        memory.weight.scatter(1, place, other.weight.gather(1, order)),
        memory.label.scatter(1, place, other.label.gather(1, order)),
        memory.scatter + other.scatter,
    )


@READOUTS.register("universal")
def _universal(config: ReadoutConfig, n_features: int, n_classes: int) -> Readout:
    del n_classes
    return UniversalReadout(n_features, config.shapes)
