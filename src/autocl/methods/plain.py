"""Plain optimisers: what happens when nothing is done against forgetting."""

from dataclasses import dataclass

from autocl.methods.base import register
from autocl.methods.trained import Optimizer, Trained


@register
@dataclass(kw_only=True, eq=False)
class SGD(Trained):
    """Stochastic gradient descent without momentum."""

    name = "sgd"
    optimizer: Optimizer = "sgd"
    lr: float = 0.01


@register
@dataclass(kw_only=True, eq=False)
class Adam(Trained):
    """Adam, its moments kept from task to task."""

    name = "adam"


@register
@dataclass(kw_only=True, eq=False)
class Adagrad(Trained):
    """Adagrad, whose steps shrink over the whole stream."""

    name = "adagrad"
    optimizer: Optimizer = "adagrad"
    lr: float = 0.01
