"""How long each baseline trains on a task, by diet.

On the full diet all follow Hsu et al. 2018. On the demos diet (15 a class) nobody has settled it for us: it
was searched on the validation part of Split-MNIST, over epochs 4, 20 (adam and sgd also 100) × batch 128, 8,
with three runs, by the average accuracy after the last of five tasks. README.md has the numbers.
"""

from typing import NamedTuple

from autocl.baselines.base import Diet
from autocl.data.stream_config import Scenario


class Schedule(NamedTuple):
    """Passes over a task, and examples in a step."""

    epochs: int
    batch: int


FULL = Schedule(4, 128)
DEMOS: dict[str, dict[Scenario, Schedule]] = {
    "sgd": {"domain": Schedule(4, 8), "class": Schedule(100, 8)},
    "adam": {"domain": Schedule(4, 128), "class": Schedule(4, 128)},
    "adagrad": {"domain": Schedule(4, 128), "class": Schedule(20, 128)},
    "l2": {"domain": Schedule(4, 128), "class": Schedule(4, 8)},
    "ewc": {"domain": Schedule(4, 128), "class": Schedule(4, 128)},
    "online-ewc": {"domain": Schedule(4, 128), "class": Schedule(4, 128)},
    "si": {"domain": Schedule(4, 8), "class": Schedule(4, 128)},
    "mas": {"domain": Schedule(20, 8), "class": Schedule(4, 128)},
    "lwf": {"domain": Schedule(4, 128), "class": Schedule(20, 8)},
    "rehearsal": {"domain": Schedule(20, 8), "class": Schedule(20, 8)},
    "joint": {"domain": Schedule(20, 8), "class": Schedule(20, 8)},
}


def schedule_of(name: str, diet: Diet, scenario: Scenario) -> Schedule:
    """The schedule of a method by name; one that was not searched for has that of the full diet.

    Example:
        >>> schedule_of("sgd", "demos", "domain")
        Schedule(epochs=4, batch=8)
    """
    return DEMOS[name][scenario] if diet == "demos" and name in DEMOS else FULL
