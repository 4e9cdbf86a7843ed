"""Joint training: the upper bound that keeps everything and starts again at every task."""

from dataclasses import dataclass

from autocl.methods.base import StreamInfo, register
from autocl.methods.examples import Share
from autocl.methods.trained import Trained


@register
@dataclass(kw_only=True, eq=False)
class Joint(Trained):
    """At each boundary a new network is trained on all tasks so far, mixed. Not continual learning."""

    name = "joint"
    uses_replay = True

    def begin(self, info: StreamInfo) -> None:
        """Draw the networks of all runs and forget the rest."""
        super().begin(info)
        self.kept: list[Share] = []

    def _stored(self) -> list[Share]:
        return self.kept

    def _material(self, share: Share) -> list[Share]:
        self.kept = [*self.kept, share]
        self._start_networks()
        return self.kept
