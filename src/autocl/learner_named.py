"""From what a person calls a learner to the learner: a name in the zoo, a file, or the thing itself."""

import copy
from pathlib import Path

from autocl import zoo
from autocl.errors import InputError
from autocl.learner import Learner


def find_learner(learner: str | Path | Learner) -> Learner:
    """The learner that is meant, in evaluation mode.

    Args:
        learner: a name in the zoo, the path of a file or folder, or a `Learner`.

    Example:
        >>> from autocl import LearnerConfig
        >>> find_learner(Learner(LearnerConfig(n_classes=3))).training
        False
    """
    if isinstance(learner, Learner):
        # Dropout would make answers random; the caller's own module is left as it is.
        return copy.deepcopy(learner).eval() if learner.training else learner
    if isinstance(learner, str) and learner in zoo.names():
        return zoo.load(learner)
    if isinstance(learner, str | Path) and Path(learner).exists():
        return Learner.from_pretrained(learner)
    if isinstance(learner, str) and not Path(learner).suffix:
        return zoo.load(learner)  # says what there is
    raise InputError(
        f"learner={learner!r} is neither a name in the zoo ({', '.join(zoo.names())}), nor an existing file, "
        "nor a Learner"
    )
