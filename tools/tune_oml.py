"""Tune OML's meta-test step size and passes as the paper does: on held-out training images of MNIST.

Run: python -m tools.tune_oml oml runs/oml-tuned.safetensors
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from tools.search import Trial, search

from autocl.baselines.incontext import InContext
from autocl.data import load
from autocl.data.eval_streams import split_stream
from autocl.data.stream import Stream
from autocl.data.stream_config import Scenario
from autocl.files import write_json
from autocl.learner import Learner, ReadoutLearner
from autocl.learner.find import find_learner

GRID = {"rate": (3e-2, 3e-3, 3e-4, 3e-5), "iterations": (1, 2, 5, 8, 10)}
"""The paper's."""
RUNS = 10


def validation_streams() -> dict[str, list[Stream]]:
    """The three settings of the Split-MNIST table, over the validation part."""
    train, test = load("mnist"), load("mnist", "test")

    def streams(scenario: Scenario, tasks: int) -> list[Stream]:
        form: dict[str, Any] = {"scenario": scenario, "shots": 15, "tasks": tasks, "part": "validation"}
        return [split_stream(train, test, run=run, **form) for run in range(RUNS)]

    return {
        "domain 5-task": streams("domain", 5),
        "class 2-task": streams("class", 2),
        "class 5-task": streams("class", 5),
    }


def tuned(
    learner: ReadoutLearner,
    settings: Mapping[str, Sequence[Stream]],
    *,
    grid: Mapping[str, Sequence[float]] = GRID,
) -> tuple[ReadoutLearner, dict[str, list[Trial]]]:
    """The learner with the rate and iterations that are best on the mean over all settings.

    Args:
        learner: with an online read-out; not altered.
        settings: validation streams by name; `search` refuses any that ask test images.
        grid: rate and iterations to try.

    Returns:
        The tuned learner, and every trial of each setting, best first.
    """

    def method(**options: Any) -> InContext:
        return InContext(_changed(learner, options))

    trials = {name: search(method, grid, streams) for name, streams in settings.items()}

    def mean_of(chosen: Trial) -> float:
        return fmean(t.mean for ts in trials.values() for t in ts if t.options == chosen.options)

    best = max(next(iter(trials.values())), key=mean_of)
    return _changed(learner, best.options), trials


def _changed(learner: ReadoutLearner, options: dict[str, Any]) -> ReadoutLearner:
    changed = ReadoutLearner(replace(learner.config, readout=replace(learner.config.readout, **options)))
    changed.load_weights(learner.weights())
    changed.eval()
    return changed


def main(args: Sequence[str]) -> None:
    """Tune the first learner, write it to the second path, and all trials to a JSON beside that."""
    target = Path(args[1])
    source: Learner = find_learner(args[0])
    assert isinstance(source, ReadoutLearner), f"{args[0]} has no read-out to tune"
    learner, trials = tuned(source, validation_streams())
    chosen = {name: getattr(learner.config.readout, name) for name in GRID}
    for setting, tried in trials.items():
        for trial in tried:
            print(f"{setting}: {trial.options} {trial.mean:.1f} ± {trial.std:.1f} %", flush=True)
    print(f"best on the mean over settings: {chosen}; saved to {target}")
    learner.save_pretrained(
        target,
        meta={
            "recipe": "oml-tuned",
            "sets": "omniglot",
            "acl": "false",
            "shots": "15",
            "validated_on": "mnist",
        },
    )
    write_json(
        target.with_suffix(".json"),
        {
            "name": "oml-tuned",
            "tuned_on": "mnist/train, validation part",
            "runs": RUNS,
            "chosen": chosen,
            "trials": {setting: [asdict(t) for t in tried] for setting, tried in trials.items()},
        },
    )


if __name__ == "__main__":
    main(sys.argv[1:])
