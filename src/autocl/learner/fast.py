"""FastWeightLearner: encoder + self-modifying layers + head. Its parameters are the meta-learned algorithm.

Shape legend: B = streams, T = demos, Q = queries, F = features, N = classes, C = model width.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autocl.encoders import Encoder, Patches, build_encoder
from autocl.errors import InputError
from autocl.layers.base import MIXERS, Layer, Linear, StackConfig
from autocl.layers.srmixer import PatchInput
from autocl.layers.srwm import SRWMLayer
from autocl.learner.base import Learner
from autocl.learner.config import LearnerConfig
from autocl.learner.state import LearnerState
from autocl.readouts import ReadoutConfig, build_readout
from autocl.readouts.ridge import RidgeReadout


class FastWeightLearner(Learner):
    """The paper's learner: layers whose weights are rewritten by the demos they see.

    Example:
        >>> FastWeightLearner(LearnerConfig(n_classes=5)).initial_state(batch=2).nbytes
        212992
    """

    config_type = LearnerConfig
    config: LearnerConfig

    def __init__(self, config: LearnerConfig) -> None:
        super().__init__(config)
        self.encoder = build_encoder(
            config.encoder, channels=config.channels, height=config.height, width=config.width
        )
        features, N = self.encoder.n_features, config.n_classes
        # Columns: features, then one for each label, then the unknown label.
        self.input, self.layers = build_layers(config, self.encoder)
        with torch.no_grad():
            self.input.weight[:, -N - 1 :] *= config.label_scale
        # Layers behind the last one with a state do nothing for demos: `learn` leaves them out.
        self._remembering = 1 + max(i for i, x in enumerate(self._stack()) if x.initial_state(1))
        self.head = nn.Linear(config.model_width, N)
        self.readout = _readout(config, features)

    def initial_state(self, batch: int = 1, n_classes: int | None = None) -> LearnerState:
        """Return the state before the first demo; the number of outputs is the learner's own."""
        if n_classes is not None and n_classes > self.config.n_classes:
            raise InputError(
                f"{n_classes} outputs are needed, this learner has {self.config.n_classes}: use a learner "
                "with more classes"
            )
        tensors = {
            f"{i}.{name}": t
            for i, layer in enumerate(self._stack())
            for name, t in layer.initial_state(batch).items()
        }
        if self.readout is not None:
            start = self.readout.initial_state(batch, self.config.n_classes)
            tensors |= {f"readout.{n}": t for n, t in start.items()}
        if self.config.labels == "delayed":
            unknown = torch.full((batch,), self.config.n_classes, device=self.head.weight.device)
            tensors["delayed.label"] = unknown
        return LearnerState(tensors)

    @property
    def width(self) -> int:
        """C."""
        return self.config.model_width

    def outputs(self, state: LearnerState) -> int:
        """N, the same for all states."""
        return self.config.n_classes

    def answer_features(self, f: Tensor, state: LearnerState) -> tuple[Tensor, Tensor | None]:
        """Logits [B, Q, N], and with another read-out those of the fast weights alone."""
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
            return body, None
        return self.readout.join(body, f, state.part("readout")), body

    def predict_together(self, f: Tensor, states: Sequence[LearnerState]) -> Tensor:
        """A ridge read-out is a regression whose sums can be added up: it alone decides, if there is one."""
        if self.readout is None:
            return super().predict_together(f, states)
        return self.readout.read(f, self.readout.merge([state.part("readout") for state in states]))

    def rates(self, f: Tensor, label: int, state: LearnerState) -> dict[int, Tensor]:
        """Learning rates σ(β) [H, 4] with which each SRWM layer, by its place, would learn a demo f [F]."""
        shown = torch.full((1, 1), label, device=f.device)
        if self.config.labels == "delayed":
            shown = state.tensors["delayed.label"][:, None]
        h = self._embed(f[None, None], shown)
        found = {}
        for i, layer in enumerate(self._stack()):
            if isinstance(layer, SRWMLayer):
                found[i] = layer.rates(h, state.part(str(i)))[0, :, 0]
            h, _ = layer(h, state.part(str(i)))
        return found

    def with_classes(self, n_classes: int) -> "FastWeightLearner":
        """A learner for another number of classes with the same weights.

        Features keep their columns, label c goes to label c, unknown to unknown; what is new starts fresh.
        """
        other = FastWeightLearner(replace(self.config, n_classes=n_classes)).to(self.head.weight)
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
        other.train(self.training)
        return other

    def _learn(self, f: Tensor, y: Tensor, state: LearnerState) -> LearnerState:
        """Run demos through the layers that remember; a last one that can learn without answering does."""
        tensors: dict[str, Tensor] = {}
        shown = y
        if self.config.labels == "delayed":
            shown = torch.cat([state.tensors["delayed.label"][:, None], y[:, :-1]], dim=1)
            tensors["delayed.label"] = y[:, -1]
        h = self._embed(f, shown)
        for i, layer in enumerate(islice(self._stack(), self._remembering)):
            if i + 1 == self._remembering and isinstance(layer, SRWMLayer):
                new = layer.learn(h, state.part(str(i)))
            else:
                h, new = layer(h, state.part(str(i)))
            tensors |= {f"{i}.{name}": t for name, t in new.items()}
        if self.readout is not None:
            new = self.readout.learn(f, y, state.part("readout"))
            tensors |= {f"readout.{name}": t for name, t in new.items()}
        return LearnerState(tensors)

    def _growing(self) -> dict[str, int]:
        return {
            f"{i}.{name}": axis
            for i, layer in enumerate(self.layers)
            for name, axis in getattr(layer, "per_demo", {}).items()
        }

    def _stack(self) -> Iterator[Layer]:
        """The layers, typed as what they are: nn.ModuleList only knows modules."""
        return (cast("Layer", layer) for layer in self.layers)

    def _embed(self, f: Tensor, label: Tensor) -> Tensor:
        """Input projection of [features; one-hot label or unknown] -> [B, T, C]."""
        one_hot = F.one_hot(label, self.config.n_classes + 1).to(f.dtype)
        h: Tensor = self.input(torch.cat([f, one_hot], dim=-1))
        return h.to(f.dtype)


def build_layers(config: LearnerConfig, encoder: Encoder) -> tuple[nn.Linear, nn.ModuleList]:
    """The input projection of [features; one-hot label or unknown], and the stack of layers behind it."""
    patches = encoder if isinstance(encoder, Patches) else None
    stack = StackConfig(
        width=config.model_width, heads=config.heads, depth=config.depth, ff_factor=config.ff_factor,
        dropout=config.dropout, norm=config.norm, n_patches=patches.n_patches if patches else 0,
    )  # fmt: skip
    labels = config.n_classes + 1
    projection = (
        PatchInput(
            n_patches=patches.n_patches,
            patch_features=patches.patch_features,
            n_labels=labels,
            embedding=stack.width,
        )
        if patches
        else Linear(encoder.n_features + labels, stack.width)
    )
    return projection, MIXERS.get(config.mixer)(stack)


def _readout(config: LearnerConfig, n_features: int) -> RidgeReadout | None:
    """Build the head beside the linear one, or None."""
    if config.readout == "linear":
        return None
    form = ReadoutConfig(kind=config.readout, keys=config.readout_keys, hidden=config.readout_hidden)
    readout = build_readout(form, n_features=n_features, n_classes=config.n_classes)
    assert isinstance(readout, RidgeReadout)  # both kinds are
    return readout
