"""MetaTrained: methods whose encoder and readout were meta-trained together."""

from dataclasses import dataclass, field
from typing import ClassVar

from autocl.errors import InputError
from autocl.methods.embedding import Embedding
from autocl.methods.readout import Readout
from autocl.methods.representation import OnFeatures
from autocl.methods.rival import ReadoutKind, Rival


@dataclass(kw_only=True, eq=False)
class MetaTrained(OnFeatures):
    """A rival taken through streams. Nothing is tuned at meta-test."""

    readout_kind: ClassVar[ReadoutKind]
    """What the rival must have been meta-trained with."""
    gated: ClassVar[bool] = False
    """Whether its features must pass a gate."""

    rival: Rival
    embedding: Embedding = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        config = self.rival.config
        if (config.readout, config.gated) != (self.readout_kind, self.gated):
            raise InputError(
                f"method {self.name!r} needs a rival with readout={self.readout_kind!r} and "
                f"gated={self.gated}, got one with readout={config.readout!r} and gated={config.gated}"
            )
        self.embedding = Embedding(self.rival.encoder, channels=config.channels)

    def make_readout(self) -> Readout:
        """The rival's own."""
        return self.rival.readout
