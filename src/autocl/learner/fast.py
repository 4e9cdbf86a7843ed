"""Learner: encoder + self-modifying layers + head. Its parameters are the meta-learned algorithm.

Shape legend: B = streams, T = demos, Q = queries, F = features, N = classes, C = model width.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autocl.encoders import build_encoder
from autocl.errors import InputError
from autocl.files import write_tensors
from autocl.layers import Layer, build_body, build_readout
from autocl.learner.config import LearnerConfig, config_from_dict
from autocl.learner.state import LearnerState
from autocl.weights import load_weights

FILE_NAME = "learner.safetensors"
MAX_STATE = 2**29
MAX_PIXELS = 2**24
"""What a learner from a file may need at most: bytes for each stream, numbers for each image."""


class Learner(nn.Module):
    """A continual learner: `learn` maps (demos, state) to a new state, `predict` reads a state.

    Both are pure functions; a query never changes a state. Gradients flow through states, which is how the
    algorithm itself is meta-learned.

    Example:
        >>> learner = Learner(LearnerConfig(n_classes=5)).eval()
        >>> x, y = torch.randn(1, 10, 3, 32, 32), torch.arange(10)[None] % 5
        >>> state = learner.learn(x, y, learner.initial_state())
        >>> learner.predict(x[:, :3], state).shape
        torch.Size([1, 3, 5])
    """

    def __init__(self, config: LearnerConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = build_encoder(
            config.encoder, channels=config.channels, height=config.height, width=config.width
        )
        features, N = self.encoder.n_features, config.n_classes
        # Columns: features, then one for each label, then the unknown label.
        self.input, self.layers = build_body(config, self.encoder)
        with torch.no_grad():
            self.input.weight[:, -N - 1 :] *= config.label_scale
        # Layers behind the last one with a state do nothing for demos: `learn` leaves them out.
        self._remembering = 1 + max(i for i, x in enumerate(self._stack()) if x.initial_state(1))
        self.head = nn.Linear(config.model_width, N)
        self.readout = build_readout(config, features)

    def initial_state(self, batch: int = 1) -> LearnerState:
        """What the learner knows before the first demo, for a batch of streams."""
        tensors = {
            f"{i}.{name}": t
            for i, layer in enumerate(self._stack())
            for name, t in layer.initial_state(batch).items()
        }
        if self.readout is not None:
            tensors |= {f"readout.{n}": t for n, t in self.readout.initial_state(batch).items()}
        if self.config.labels == "delayed":
            unknown = torch.full((batch,), self.config.n_classes, device=self.head.weight.device)
            tensors["delayed.label"] = unknown
        return LearnerState(tensors)

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
        if not torch.isfinite(x).all():
            raise InputError("images contain NaN or infinity; clean them before learning or predicting")
        out: Tensor = self.encoder(x.flatten(0, -4)).unflatten(0, x.shape[:-3])
        return out

    def learn(self, x: Tensor, y: Tensor, state: LearnerState) -> LearnerState:
        """Show demos: images x [B, T, channels, height, width], labels y [B, T] -> the state after them."""
        self._check_labels(y, x.shape[:-3])
        return self.learn_features(self.encode(x), y, state)

    def predict(self, x: Tensor, state: LearnerState) -> Tensor:
        """Ask queries: images x [B, Q, channels, height, width] -> logits [B, Q, N]."""
        return self.predict_features(self.encode(x), state)

    def learn_features(self, f: Tensor, y: Tensor, state: LearnerState) -> LearnerState:
        """`learn` on features f [B, T, F] that `encode` made before."""
        return self._show(f, y, state, self._remembering)[1]

    def run_features(self, f: Tensor, y: Tensor, state: LearnerState) -> tuple[Tensor, LearnerState]:
        """Show demos and return the body's logits [B, T, N] at every one of them, beside the new state.

        With delayed labels the logits at step t are predictions of y_t; with synchronous labels, where y_t is
        part of the input, they mean little.
        """
        h, new = self._show(f, y, state, len(self.layers))
        return self.head(h), new

    def predict_features(self, f: Tensor, state: LearnerState) -> Tensor:
        """`predict` on features f [B, Q, F]. All queries of all streams in one pass."""
        return self.answer_features(f, state)[0]

    def answer_features(self, f: Tensor, state: LearnerState) -> tuple[Tensor, Tensor]:
        """`predict_features`, and the logits of the body alone: the same unless there is another read-out."""
        self._check_features(f, state)
        if self.config.labels == "delayed":
            shown = state.tensors["delayed.label"][:, None].expand(f.shape[:-1])
        else:
            shown = torch.full(f.shape[:-1], self.config.n_classes, device=f.device)
        h = self._embed(f, shown)
        for i, layer in enumerate(self._stack()):
            h = layer.read(h, state.part(str(i)))
        body = self.head(h)
        if self.readout is None:
            return body, body
        return self.readout.answer(body, f, state.part("readout")), body

    def with_classes(self, n_classes: int) -> "Learner":
        """A learner for another number of classes with the same weights.

        Features keep their columns, label c goes to label c, unknown to unknown; what is new starts fresh.
        """
        other = Learner(replace(self.config, n_classes=n_classes)).to(self.head.weight)
        mine = self.state_dict()
        common = min(n_classes, self.config.n_classes)
        columns = self.input.in_features - self.config.n_classes - 1 + common
        theirs = other.state_dict()
        for name, value in mine.items():
            if name == "input.weight":
                theirs[name][:, :columns] = value[:, :columns]
                theirs[name][:, -1] = value[:, -1]
            elif name in ("head.weight", "head.bias"):
                theirs[name][:common] = value[:common]
            else:
                theirs[name] = value
        other.load_state_dict(theirs)
        return other.train(self.training)

    def fingerprint(self) -> str:
        """Sixteen hex digits that identify architecture and weights."""
        # Settings at their default are left out, so that a new one does not disown old learners' states.
        settings = self.config.unusual()
        digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
        for name, value in sorted(self.state_dict().items()):
            digest.update(name.encode())
            digest.update(value.detach().cpu().numpy().tobytes())
        return digest.hexdigest()[:16]

    def save_pretrained(self, path: str | Path, *, meta: dict[str, str] | None = None) -> Path:
        """Write weights and configuration to one file (`*.safetensors`), or into a folder.

        Returns:
            The file that was written.
        """
        path = Path(path)
        file = path if path.suffix == ".safetensors" else path / FILE_NAME
        config = json.dumps(asdict(self.config))
        tensors = {n: t.detach().cpu().contiguous() for n, t in self.state_dict().items()}
        write_tensors(file, tensors, {**(meta or {}), "kind": "learner", "config": config})
        return file

    @staticmethod
    def from_pretrained(path: str | Path) -> "Learner":
        """Read a learner from a file or folder that `save_pretrained` wrote. It comes in evaluation mode."""
        path = Path(path)
        file = path / FILE_NAME if path.is_dir() else path
        return load_weights(file, kind="learner", build=_from_config)

    def _show(self, f: Tensor, y: Tensor, state: LearnerState, depth: int) -> tuple[Tensor, LearnerState]:
        """Run demos through the first `depth` layers: what comes out [B, T, C], and the new state."""
        self._check_features(f, state)
        self._check_labels(y, f.shape[:-1])
        tensors: dict[str, Tensor] = {}
        shown = y
        if self.config.labels == "delayed":
            shown = torch.cat([state.tensors["delayed.label"][:, None], y[:, :-1]], dim=1)
            tensors["delayed.label"] = y[:, -1]
        h = self._embed(f, shown)
        for i, layer in enumerate(islice(self._stack(), depth)):
            h, new = layer(h, state.part(str(i)))
            tensors |= {f"{i}.{name}": t for name, t in new.items()}
        if self.readout is not None:
            new = self.readout.learn(f, y, state.part("readout"))
            tensors |= {f"readout.{name}": t for name, t in new.items()}
        return h, LearnerState(tensors)

    def _stack(self) -> Iterator[Layer]:
        """The layers, typed as what they are: nn.ModuleList only knows modules."""
        return (cast("Layer", layer) for layer in self.layers)

    def _embed(self, f: Tensor, label: Tensor) -> Tensor:
        """Input projection of [features; one-hot label or unknown] -> [B, T, C]."""
        one_hot = F.one_hot(label, self.config.n_classes + 1).to(f.dtype)
        h: Tensor = self.input(torch.cat([f, one_hot], dim=-1))
        return h

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

    def _check_labels(self, y: Tensor, shape: torch.Size) -> None:
        if y.shape != shape:
            raise InputError(f"labels must be one for each image {list(shape)}, got {list(y.shape)}")
        if y.dtype != torch.int64:
            raise InputError(f"labels must be int64, got {y.dtype}; use .long()")
        if y.numel() and not (int(y.min()) >= 0 and int(y.max()) < self.config.n_classes):
            raise InputError(
                f"labels must lie in 0..{self.config.n_classes - 1} for this learner, got "
                f"{int(y.min())}..{int(y.max())}; use a learner with more classes, or with_classes(n)"
            )


def _from_config(values: dict[str, Any]) -> Learner:
    """A learner of a configuration from a file, unless it would need absurd amounts of memory when used."""
    learner = Learner(config_from_dict(values))
    c, state = learner.config, learner.initial_state().nbytes
    if state > MAX_STATE or c.channels * c.height * c.width > MAX_PIXELS:
        raise InputError(
            f"images of {c.channels}×{c.height}×{c.width} or a state of {state:,} bytes: too large for a file"
        )
    return learner
