"""ReadoutLearner: an encoder and a read-out with a state.

Prototypes, GeMCL, OML and ANML are such learners whose encoder and read-out were meta-trained together; class
means, LDA, ridge regression and k-NN need no meta-training and stand on any encoder.

Shape legend: B = streams, T = demos, Q = queries, F = features, N = classes.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from autocl.encoders import Encoder, build_encoder
from autocl.learner.base import Learner
from autocl.learner.config import ReadoutLearnerConfig
from autocl.learner.state import LearnerState
from autocl.readouts import build_readout


class ReadoutLearner(Learner):
    """Features go into the read-out's state, which is all that is known of the stream.

    Classes without a demo have a logit of -inf, unless the read-out does not count its demos.

    Args:
        config: what it is.
        encoder: one that exists already, used as it is; default: a new one as configured.

    Example:
        >>> learner = ReadoutLearner(ReadoutLearnerConfig(n_classes=2)).eval()
        >>> x, y = torch.randn(1, 6, 3, 32, 32), torch.tensor([[0, 1, 2, 3, 4, 5]])
        >>> learner.predict(x, learner.learn(x, y, learner.initial_state())).argmax(-1)
        tensor([[0, 1, 2, 3, 4, 5]])
    """

    config_type = ReadoutLearnerConfig
    config: ReadoutLearnerConfig

    def __init__(self, config: ReadoutLearnerConfig, encoder: Encoder | None = None) -> None:
        super().__init__(config)
        self.encoder = encoder or build_encoder(
            config.encoder, channels=config.channels, height=config.height, width=config.width
        )
        self.readout = build_readout(
            config.readout, n_features=self.encoder.n_features, n_classes=config.n_classes
        )
        self.grows = self.readout.grows
        self.any_length = (
            config.takes_vectors and config.encoder.kind == "identity" and self.readout.any_length
        )
        self.steps_per_demo = self.readout.steps_per_demo
        self.test_every = self.readout.test_every

    def independent(self, f: Tensor) -> bool:
        """As its read-out says."""
        return self.readout.independent(f)

    def initial_state(self, batch: int = 1, n_classes: int | None = None) -> LearnerState:
        """Return the state before the first demo, with as many outputs as asked for."""
        N = self.config.n_classes if n_classes is None else n_classes
        return LearnerState(self.readout.initial_state(batch, N))

    @property
    def width(self) -> int:
        """F."""
        return self.encoder.n_features

    def outputs(self, state: LearnerState) -> int:
        """N of the state."""
        return self.readout.n_classes(dict(state.tensors))

    def grow(self, state: LearnerState, n_classes: int) -> LearnerState:
        """The state with at least so many outputs."""
        if not self.grows or n_classes <= self.outputs(state):
            return super().grow(state, n_classes)
        return LearnerState(self.readout.grow(dict(state.tensors), n_classes))

    def with_classes(self, n_classes: int) -> "ReadoutLearner":
        """A learner that starts with another number of classes, with the same weights."""
        other = ReadoutLearner(replace(self.config, n_classes=n_classes)).to(self.device)
        theirs = other.state_dict()
        for name, value in self.state_dict().items():
            # Only the rows of an online head number classes.
            theirs[name].view(-1)[: value.numel()] = value.flatten()[: theirs[name].numel()]
        other.load_state_dict(theirs)
        other.train(self.training)
        return other

    def with_features(self, length: int) -> Learner:
        """The same learner for ready-made vectors of this length."""
        if not self.any_length:
            return super().with_features(length)
        other = ReadoutLearner(replace(self.config, channels=length, height=1, width=1)).to(self.device)
        other.load_state_dict(self.state_dict())
        other.train(self.training)
        return other

    def novelty_features(self, f: Tensor, state: LearnerState) -> Tensor:
        """Novelty [B, Q] of queries f [B, Q, F]: 0 like the demos, 1 like none of them."""
        return self.readout.novelty(self._scaled(f), dict(state.tensors))

    def forget(self, state: LearnerState, output: int) -> LearnerState:
        """The state as if no demo of that output had been shown. The outputs behind it move up by one."""
        return LearnerState(self.readout.forget(dict(state.tensors), output))

    def renewed(self, state: LearnerState) -> LearnerState:
        """As its read-out keeps it."""
        return LearnerState(self.readout.renewed(dict(state.tensors)))

    def fits(self, state: LearnerState) -> bool:
        """Whether a state is this learner's; all its tensors must agree on the classes, and on the demos."""
        if not super().fits(state):
            return False
        for axes in (self.readout.per_class, self.readout.per_demo):
            if len({state.tensors[name].shape[axis] for name, axis in axes.items()}) > 1:
                return False
        return True

    def answer_features(self, f: Tensor, state: LearnerState) -> tuple[Tensor, Tensor | None]:
        """Logits [B, Q, N]."""
        self._check_features(f, state)
        return self._read(f, dict(state.tensors)), None

    def predict_together(self, f: Tensor, states: Sequence[LearnerState]) -> Tensor:
        """Merge the states where the read-out can."""
        if not self.readout.merges:
            return super().predict_together(f, states)
        return self._read(f, self.readout.merge([dict(state.tensors) for state in states]))

    def _learn(self, f: Tensor, y: Tensor, state: LearnerState) -> LearnerState:
        return LearnerState(self.readout.learn(self._scaled(f), y, dict(state.tensors)))

    def _read(self, f: Tensor, state: dict[str, Tensor]) -> Tensor:
        scores = self.readout.read(self._scaled(f), state)
        counts = self.readout.counts(state)
        return scores if counts is None else scores.masked_fill(counts[:, None] == 0, -torch.inf)

    def _scaled(self, f: Tensor) -> Tensor:
        return F.normalize(f, dim=-1) if self.config.unit_features else f

    def _growing(self) -> dict[str, int]:
        return {**(self.readout.per_class if self.grows else {}), **self.readout.per_demo}
