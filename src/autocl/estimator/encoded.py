"""Encoded: images that have passed an encoder once, to be learned and asked about as often as one likes.

Encoding is most of the cost of a demo. Who asks before learning, or serves many streams at once, encodes once
and hands the result to the classifiers: `ContinualClassifier.encode`.

Shape legend: n = images, F = features.
"""

from dataclasses import dataclass, replace

from torch import Tensor

from autocl.errors import InputError
from autocl.estimator.preprocess import Form
from autocl.learner import Learner


@dataclass(frozen=True, kw_only=True, eq=False)
class Encoded:
    """Features of images, with the learner that made them; every method takes it in the place of images."""

    features: Tensor
    """[n, F]."""
    learner: Learner
    named: tuple[object, object]
    """What the classifier that made them had as `learner` and `backbone`."""
    form: Form

    def __len__(self) -> int:
        """Number of images."""
        return len(self.features)

    def __getitem__(self, rows: slice) -> "Encoded":
        """Some of the images."""
        return replace(self, features=self.features[rows])

    def check_named(self, named: tuple[object, object]) -> None:
        """Refuse to be the start of a classifier that was made for another learner."""
        if self.named != named:
            raise InputError(
                f"these images were encoded by a classifier with learner {self.named[0]!r}, not "
                f"{named[0]!r}: encode them with one like this"
            )

    def check_fits(self, learner: Learner, form: Form) -> None:
        """Refuse a classifier whose learner or backbone has other weights."""
        same = self.learner is learner or self.learner.fingerprint() == learner.fingerprint()
        if not same or form.get("weights", self.form.get("weights")) != self.form.get("weights"):
            raise InputError(
                "these images were encoded by a learner or backbone with other weights: encode them with a "
                "classifier like this one"
            )
