"""Tune OML's meta-test step size and passes as the paper does: on held-out training images of MNIST.

Run: python -m tools.tune_oml rivals/oml/best.safetensors rivals/oml-tuned.safetensors
"""

import copy
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from autocl.data import load
from autocl.data.split import split_stream
from autocl.data.stream import Stream
from autocl.data.stream_config import Scenario
from autocl.files import write_json
from autocl.methods.rival import Rival
from autocl.methods.search import Trial, search

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
    rival: Rival,
    settings: Mapping[str, Sequence[Stream]],
    *,
    grid: Mapping[str, Sequence[float]] = GRID,
) -> tuple[Rival, dict[str, list[Trial]]]:
    """The rival with the rate and iterations that are best on the mean over all settings.

    Args:
        rival: with an online readout; not altered.
        settings: validation streams by name; `search` refuses any that ask test images.
        grid: rate and iterations to try.

    Returns:
        The tuned rival, and every trial of each setting, best first.
    """
    trials = {name: search("oml", grid, streams, rival=rival) for name, streams in settings.items()}

    def mean_of(chosen: Trial) -> float:
        return fmean(t.mean for ts in trials.values() for t in ts if t.options == chosen.options)

    best = max(next(iter(trials.values())), key=mean_of)
    changed = Rival(replace(rival.config, **best.options, tuned_on="mnist/train, validation part"))
    changed.load_state_dict(copy.deepcopy(rival.state_dict()))
    return changed.eval(), trials


def main(args: Sequence[str]) -> None:
    """Tune the rival of the first file, write it to the second, and all trials to a JSON beside that."""
    source, target = map(Path, args)
    rival, trials = tuned(Rival.load(source), validation_streams())
    chosen = {name: getattr(rival.config, name) for name in GRID}
    for setting, tried in trials.items():
        for trial in tried:
            print(f"{setting}: {trial.options} {trial.mean:.1f} ± {trial.std:.1f} %", flush=True)
    print(f"best on the mean over settings: {chosen}; saved to {target}")
    rival.save(target, meta={"recipe": "oml-tuned"})
    write_json(
        target.with_suffix(".json"),
        {
            "name": "oml-tuned",
            "tuned_on": rival.config.tuned_on,
            "runs": RUNS,
            "chosen": chosen,
            "trials": {setting: [asdict(t) for t in tried] for setting, tried in trials.items()},
        },
    )


if __name__ == "__main__":
    main(sys.argv[1:])
