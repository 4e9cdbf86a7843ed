"""Learner: the one interface. A pure function from (state, example) to state, and one from state to answers.

Shape legend: B = streams, T = demos, Q = queries, F = features, N = classes.
"""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from autocl.config import non_default, one_from_dict, to_dict
from autocl.encoders import Encoder
from autocl.encoders.base import fingerprint_of
from autocl.errors import FileError, InputError, StateError
from autocl.files import load_module, write_tensors
from autocl.learner.config import InputConfig, LearnerConfig
from autocl.learner.state import LearnerState

FILE_NAME = "learner.safetensors"
MAX_STATE = 2**29
MAX_PIXELS = 2**24
"""Limits for a learner from a file: bytes of state for each stream, numbers for each image."""


class Learner(nn.Module):
    """A continual learner: `learn` maps (demos, state) to a new state, `predict` reads a state.

    Both are pure functions; a query never changes a state. Gradients flow through states, which is how the
    algorithm itself is meta-learned. `Learner(config)` makes the kind of learner that the configuration is
    of, as `pathlib.Path` makes a path of the system's kind.

    Example:
        >>> learner = Learner(LearnerConfig(n_classes=5)).eval()
        >>> x, y = torch.randn(1, 10, 3, 32, 32), torch.arange(10)[None] % 5
        >>> state = learner.learn(x, y, learner.initial_state())
        >>> learner.predict(x[:, :3], state).shape
        torch.Size([1, 3, 5])
    """

    config_type: ClassVar[type[InputConfig]]
    """Configuration class that a subclass is built from."""
    kinds: ClassVar[dict[type[InputConfig], type["Learner"]]] = {}
    """All subclasses, by their configuration."""
    encoder: Encoder
    grows: bool = False
    """Whether a state makes room for labels beyond its outputs when it meets them."""
    any_length: bool = False
    """Whether it takes ready-made vectors of any length; `with_features` makes one for a given length."""
    steps_per_demo: int = 0
    """Gradient steps that one demo costs."""
    test_every: int = 1
    """One demo in so many is predicted before it is learned (`prequential`): more where a state that has
    changed must be prepared for answering, which costs far more than learning."""

    def independent(self, f: Tensor) -> bool:
        """Whether rows of f [B, T, F] mean the same, bit for bit, beside any others.

        As queries, they are answered each by itself; as demos, learned in their order as one by one.
        """
        return False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        Learner.kinds[cls.config_type] = cls

    def __new__(cls, config: InputConfig | None = None, *_: object, **__: object) -> "Learner":
        """A learner of the configuration's kind; without one, of this very class, for copies."""
        if cls is not Learner:
            return super().__new__(cls)
        kinds: dict[type, type[Learner]] = {**Learner.kinds}
        if type(config) not in kinds:
            known = ", ".join(kind.__name__ for kind in kinds)
            raise InputError(f"a learner is made of one of {known}, got {config!r}")
        return super().__new__(kinds[type(config)])

    def __init__(self, config: InputConfig) -> None:
        super().__init__()
        self.config: Any = config

    def initial_state(self, batch: int = 1, n_classes: int | None = None) -> LearnerState:
        """Return the state before the first demo, for a batch of streams.

        Args:
            batch: B.
            n_classes: outputs that the streams use, if the state depends on it; default: the learner's.
        """
        raise NotImplementedError

    def outputs(self, state: LearnerState) -> int:
        """N, the number of logits that a state gives."""
        raise NotImplementedError

    def answer_features(self, f: Tensor, state: LearnerState) -> tuple[Tensor, Tensor | None]:
        """Logits [B, Q, N] of queries f [B, Q, F], and those of fast weights alone if others take part."""
        raise NotImplementedError

    def with_classes(self, n_classes: int) -> "Learner":
        """A learner for another number of classes with the same weights; what is new starts fresh."""
        raise NotImplementedError

    def _learn(self, f: Tensor, y: Tensor, state: LearnerState) -> LearnerState:
        """`learn_features` of what has been checked."""
        raise NotImplementedError

    @property
    def width(self) -> int:
        """Width of the model, on which a learning rate may depend."""
        raise NotImplementedError

    @property
    def device(self) -> torch.device:
        """Device of the parameters."""
        # As of next(self.parameters()), which takes ten times as long and stands before every image.
        waiting: list[torch.nn.Module | None] = [self]
        while waiting:
            if (at := waiting.pop()) is not None:
                for t in (*at._parameters.values(), *at._buffers.values()):
                    if t is not None:
                        return t.device
                waiting += at._modules.values()
        return torch.device("cpu")

    def encode(self, x: Tensor) -> Tensor:
        """Features [..., F] of images [..., channels, height, width]. Independent of any state."""
        c = self.config
        shape = (c.channels, c.height, c.width)
        if tuple(x.shape[-3:]) != shape or x.dim() < 4:
            raise InputError(
                f"images must end in [channels, height, width] = {list(shape)} for this learner, got shape "
                f"{list(x.shape)}; resize them, or build a learner for that size"
            )
        if not x.is_floating_point():
            raise InputError(f"images must be normalised floating point (see ImageSet.take), got {x.dtype}")
        # The sum is a tenth of the work, and infinite or NaN if any of them is (or, rarely, without that).
        if not math.isfinite(x.detach().sum()) and not torch.isfinite(x).all():
            raise InputError("images contain NaN or infinity; clean them before learning or predicting")
        out: Tensor = self.encoder(x if x.dim() == 4 else x.flatten(0, -4))
        return out if x.dim() == 4 else out.view(*x.shape[:-3], out.shape[-1])

    def learn(self, x: Tensor, y: Tensor, state: LearnerState) -> LearnerState:
        """Show demos: images x [B, T, channels, height, width], labels y [B, T] -> the state after them."""
        self._fitting(y, x.shape[:-3], state)
        return self.learn_features(self.encode(x), y, state)

    def predict(self, x: Tensor, state: LearnerState) -> Tensor:
        """Ask queries: images x [B, Q, channels, height, width] -> logits [B, Q, N]."""
        return self.predict_features(self.encode(x), state)

    def learn_features(self, f: Tensor, y: Tensor, state: LearnerState) -> LearnerState:
        """`learn` on features f [B, T, F] that `encode` made before.

        Raises:
            StateError: without gradients, if the new state would hold NaN or infinity. In meta-training loss
                and gradient say so.
        """
        self._check_features(f, state)
        new = self._learn(f, y, self._fitting(y, f.shape[:-1], state))
        if not torch.is_grad_enabled() and not new.finite:
            raise StateError(
                f"NaN or infinity in the learner's state after these {y.shape[1]} demos: keep the state "
                "before them. Such a long stream, or such inputs, are too much for this learner "
                "(docs/limits.md)"
            )
        return new

    def predict_features(self, f: Tensor, state: LearnerState) -> Tensor:
        """`predict` on features f [B, Q, F]. All queries of all streams in one pass."""
        return self.answer_features(f, state)[0]

    def predict_together(self, f: Tensor, states: Sequence[LearnerState]) -> Tensor:
        """Logits [B, Q, ΣN] of states that learned different classes, in their order.

        Logits of different states were never trained to be compared; a learner whose states can be merged
        does that instead.
        """
        return torch.cat([self.predict_features(f, state) for state in states], dim=-1)

    def grow(self, state: LearnerState, n_classes: int) -> LearnerState:
        """The state with at least so many outputs; an `InputError` if the learner cannot."""
        if n_classes > (have := self.outputs(state)):
            raise InputError(
                f"labels must lie in 0..{have - 1} for this learner, got {n_classes - 1}; use a learner with "
                "more classes, or with_classes(n)"
            )
        return state

    @property
    def takes_vectors(self) -> bool:
        """Whether ready-made vectors go in instead of images."""
        return bool(self.config.takes_vectors)

    def with_features(self, length: int) -> "Learner":
        """The same learner for ready-made vectors of this length."""
        if self.takes_vectors and length == self.config.channels:
            return self
        if self.takes_vectors:
            raise InputError(
                f"this learner was made for features of length {self.config.channels}, not {length}; "
                'the learner "vectors" takes any'
            )
        raise InputError(f"this learner is for the features of its own encoder, not for vectors of {length}")

    def renewed(self, state: LearnerState) -> LearnerState:
        """A state from a file of any version, as this one keeps it; `check_state` must follow."""
        return state

    def fits(self, state: LearnerState) -> bool:
        """Whether a state has the names, types and shapes of this learner's."""
        return self._form(state) == self._form(self.initial_state())

    def check_state(self, where: str | Path, state: LearnerState) -> None:
        """Refuse a state from a file that is not a finite one of this learner's."""
        if not self.fits(state):
            want, have = self._form(self.initial_state()), self._form(state)
            name = min((n for n in {*want, *have} if want.get(n) != have.get(n)), default="")
            if not name:
                raise FileError(f"{where}: its tensors disagree on the number of classes or demos")
            if name not in want or name not in have:
                raise FileError(f"{where}: {'lacks' if name in want else 'holds an unknown'} tensor {name}")
            raise FileError(f"{where}: {name} is {have[name]}, but must be {want[name]}")
        for name, t in state.tensors.items():
            if t.is_floating_point() and not bool(torch.isfinite(t).all()):
                raise FileError(f"{where}: {name} holds NaN or infinity")

    def weights(self) -> dict[str, Tensor]:
        """All weights by name, without those of a frozen encoder, which is stored by reference."""
        kept = self.state_dict()
        return {n: t for n, t in kept.items() if self.encoder.trainable or not n.startswith("encoder.")}

    def load_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Take what `weights` gave; a RuntimeError, as of `load_state_dict`, if it does not fit."""
        self.load_state_dict(
            {**self.state_dict(), **weights} if not self.encoder.trainable else dict(weights)
        )

    def fingerprint(self) -> str:
        """Sixteen hex digits that identify architecture and weights."""
        # Settings at their default are left out, so that a new one does not disown old learners' states.
        settings = non_default(self.config)
        if self.config_type is not LearnerConfig:
            settings["type"] = self.config_type.__name__
        if not self.encoder.trainable:
            settings["encoder weights"] = self.encoder.fingerprint()
        return fingerprint_of(self.weights(), json.dumps(settings, sort_keys=True))

    def save_pretrained(self, path: str | Path, *, meta: dict[str, str] | None = None) -> Path:
        """Write weights and configuration to one file (`*.safetensors`), or into a folder.

        Returns:
            The file that was written.
        """
        path = Path(path)
        file = path if path.suffix == ".safetensors" else path / FILE_NAME
        known = {"kind": "learner", "config": json.dumps(to_dict(self.config, tagged=True))}
        if not self.encoder.trainable:
            known["encoder"] = self.encoder.fingerprint()
        write_tensors(file, self.weights(), {**(meta or {}), **known})
        return file

    @staticmethod
    def from_pretrained(path: str | Path) -> "Learner":
        """Read a learner from a file or folder that `save_pretrained` wrote. It comes in evaluation mode."""
        path = Path(path)
        file = path / FILE_NAME if path.is_dir() else path
        learner, meta = load_module(file, kind="learner", build=_from_config)
        config = learner.config
        if not learner.encoder.trainable and meta.get("encoder") != learner.encoder.fingerprint():
            raise FileError(
                f"{file}: was made with encoder {config.encoder.kind!r} of fingerprint "
                f"{meta.get('encoder')}, but here it is {learner.encoder.fingerprint()}: install that one"
            )
        return learner.eval()

    def train(self, mode: bool = True) -> "Learner":
        """Set the mode; a frozen encoder stays in evaluation mode."""
        super().train(mode)
        if not self.encoder.trainable:
            self.encoder.eval()
        return self

    def _check_features(self, f: Tensor, state: LearnerState) -> None:
        if f.dim() != 3 or f.shape[-1] != self.encoder.n_features or f.shape[1] == 0:
            raise InputError(
                f"features must be [streams, at least 1, {self.encoder.n_features}], got {list(f.shape)}"
            )
        if len(f) != state.batch:
            raise InputError(f"got images of {len(f)} streams for a state of {state.batch}")
        device = next(iter(state.tensors.values())).device
        if f.device != device:
            raise InputError(f"images are on {f.device}, the state is on {device}; move one with .to()")

    def _fitting(self, y: Tensor, shape: torch.Size, state: LearnerState) -> LearnerState:
        """Check labels y, and return the state with an output for each of them."""
        if y.shape != shape:
            raise InputError(f"labels must be one for each image {list(shape)}, got {list(y.shape)}")
        if y.dtype != torch.int64:
            raise InputError(f"labels must be int64, got {y.dtype}; use .long()")
        if not y.numel():
            return state
        least, most = map(int, torch.aminmax(y))
        if least < 0:
            raise InputError(f"labels must lie in 0..{self.outputs(state) - 1}, got {least}")
        return self.grow(state, most + 1)

    def _form(self, state: LearnerState) -> dict[str, Any]:
        """Names, types and sizes of a state's tensors, but for axes that grow."""
        free = self._growing()
        return {
            name: (t.dtype, [n for axis, n in enumerate(t.shape) if axis not in (0, free.get(name))])
            for name, t in state.tensors.items()
        }

    def _growing(self) -> dict[str, int]:
        """Axes of the state's tensors whose size depends on the stream, by name."""
        return {}


def _from_config(values: dict[str, Any]) -> Learner:
    """A learner of a configuration from a file, unless it would need absurd amounts of memory when used."""
    learner = Learner(one_from_dict(list(Learner.kinds), values, where="config"))
    c, state = learner.config, learner.initial_state().nbytes
    if state > MAX_STATE or c.channels * c.height * c.width > MAX_PIXELS:
        raise InputError(
            f"images of {c.channels}×{c.height}×{c.width} or a state of {state:,} bytes: too large for a file"
        )
    return learner
