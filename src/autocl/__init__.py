"""Continual learning that is learned, not hand-crafted.

The names below are loaded when first used, so that `import autocl` costs little more than importing torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0.dev0"

_HOME = {
    "AutoclError": "autocl.errors",
    "ContinualClassifier": "autocl.estimator.classifier",
    "EncoderConfig": "autocl.encoders",
    "Learner": "autocl.learner",
    "LearnerConfig": "autocl.learner.config",
    "LearnerState": "autocl.learner.state",
}

if TYPE_CHECKING:
    from autocl.encoders import EncoderConfig
    from autocl.errors import AutoclError
    from autocl.estimator.classifier import ContinualClassifier
    from autocl.learner import Learner
    from autocl.learner.config import LearnerConfig
    from autocl.learner.state import LearnerState

__all__ = [
    "AutoclError",
    "ContinualClassifier",
    "EncoderConfig",
    "Learner",
    "LearnerConfig",
    "LearnerState",
    "__version__",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'autocl' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
