"""MetaTrained: methods whose encoder and readout were meta-trained together."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

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

    rival: Rival | str | Path
    """What was meta-trained, or its file."""

    def __post_init__(self) -> None:
        self._rival = self.rival if isinstance(self.rival, Rival) else Rival.load(self.rival)
        config = self._rival.config
        if (config.readout, config.gated) != (self.readout_kind, self.gated):
            raise InputError(
                f"method {self.name!r} needs a rival with readout={self.readout_kind!r} and "
                f"gated={self.gated}, got one with readout={config.readout!r} and gated={config.gated}"
            )
        super().__post_init__()

    def make_embedding(self) -> Embedding:
        """The rival's own encoder."""
        return Embedding(self._rival.encoder, channels=self._rival.config.channels)

    def make_readout(self) -> Readout:
        """The rival's own."""
        return self._rival.readout

    def settings(self) -> dict[str, Any]:
        """What was chosen; the rival by its fingerprint, wherever it came from."""
        return {**super().settings(), "rival": self._rival.fingerprint()}
