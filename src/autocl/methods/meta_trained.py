"""MetaTrained: methods whose encoder and readout were meta-trained together."""

from dataclasses import dataclass
from importlib.resources import as_file, files
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

    rival: Rival | str | Path | None = None
    """What was meta-trained, or its file; None: the one that ships under the method's name."""

    def __post_init__(self) -> None:
        self._rival = self._find()
        config = self._rival.config
        if (config.readout, config.gated) != (self.readout_kind, self.gated):
            raise InputError(
                f"method {self.name!r} needs a rival with readout={self.readout_kind!r} and "
                f"gated={self.gated}, got one with readout={config.readout!r} and gated={config.gated}"
            )
        super().__post_init__()

    def _find(self) -> Rival:
        if isinstance(self.rival, Rival):
            return self.rival
        if self.rival is not None:
            return Rival.load(self.rival)
        file = files("autocl.zoo") / "rivals" / f"{self.name}.safetensors"
        if not file.is_file():
            raise InputError(
                f"no rival ships for method {self.name!r}: meta-train one with autocl train {self.name} "
                f"--out rivals/{self.name}, and use it with --rivals rivals"
            )
        with as_file(file) as path:
            return Rival.load(path)

    def make_embedding(self) -> Embedding:
        """The rival's own encoder."""
        return Embedding(self._rival.encoder, channels=self._rival.config.channels)

    def make_readout(self) -> Readout:
        """The rival's own."""
        return self._rival.readout

    def differs(self) -> str:
        """The paper's rows are those of other weights."""
        return (
            "meta-trained here as our learners are, with the same images, augmentation, streams and encoder; "
            "the paper's row, if it has one, is the model its authors published"
        )

    def settings(self) -> dict[str, Any]:
        """What was chosen; the rival by its fingerprint, wherever it came from."""
        return {**super().settings(), "rival": self._rival.fingerprint()}
