"""OML and ANML: a head that learns online by gradient descent on features meta-learned for exactly that."""

import copy
from dataclasses import dataclass

from autocl.errors import InputError
from autocl.methods.base import register
from autocl.methods.meta_trained import MetaTrained
from autocl.methods.online_head import OnlineHead
from autocl.methods.readout import Readout


@register
@dataclass(kw_only=True, eq=False)
class OML(MetaTrained):
    """Online-aware meta-learning (Javed & White 2019): the start of the head is meta-learned, too."""

    name = "oml"
    readout_kind = "online"

    rate: float | None = None
    """Step size; None: the rival's own, that of meta-training unless it was tuned."""
    iterations: int | None = None
    """Passes over the demos of each task; None: the rival's own. To be tuned on a validation part, never on
    the test images."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.iterations is not None and self.iterations < 1:
            raise InputError(f"iterations must be at least 1, got {self.iterations}")
        if self.rate is not None and self.rate <= 0:
            raise InputError(f"rate must be positive, got {self.rate}")

    def make_readout(self) -> Readout:
        """The rival's head with this method's step size and number of passes."""
        head = copy.copy(self._rival.readout)
        assert isinstance(head, OnlineHead)  # readout_kind says so
        head.rate = head.rate if self.rate is None else self.rate
        head.iterations = head.iterations if self.iterations is None else self.iterations
        return head


@register
@dataclass(kw_only=True, eq=False)
class TunedOML(OML):
    """OML with its meta-test step size and passes found by `autocl.methods.search` on a validation part."""

    name = "oml-tuned"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self._rival.config.tuned_on:
            raise InputError(
                "oml-tuned needs a rival whose rate and iterations were tuned on a validation part: make one "
                "of an OML rival with tools.tune_oml.tuned"
            )


@register
@dataclass(kw_only=True, eq=False)
class ANML(OML):
    """A neuromodulated OML (Beaulieu et al. 2020): a second network gates the features.

    Here as at the meta-test of the original, only what stands behind the gate learns online; the original's
    inner loop also changes the gated network.
    """

    name = "anml"
    gated = True
