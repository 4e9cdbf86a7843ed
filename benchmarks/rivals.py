"""Settings of the world table's rivals on the validation world: `python -m benchmarks.rivals everyday lite2`.

Each name is a learner, whose encoder's features are taken, or a frozen backbone. One setting serves all
features, as for a user who does not tune; these means chose it.
"""

import argparse
from functools import partial

import numpy as np
from rich.console import Console
from rich.table import Table

from autocl.encoders.backbones import get_backbone
from autocl.evaluation.world.rivals import Problem, logistic, neighbours, ridge, svm
from autocl.evaluation.world.sets import backbone_eyes, learner_eyes, world_features
from autocl.evaluation.world.streams import cells
from autocl.learner.find import find_learner

SETTINGS = {
    **{f"logistic regression, C {c:g}": partial(logistic, C=c) for c in (1, 10, 100, 1000)},
    **{f"SVM, C {c:g}": partial(svm, C=c) for c in (1, 10, 100)},
    **{f"ridge, λ {penalty:g}": partial(ridge, penalty=penalty) for penalty in (0.1, 0.3, 1, 3)},
    **{f"{k}-NN": partial(neighbours, k=k) for k in (1, 3, 5)},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("features", nargs="+", help="learners or backbones")
    parser.add_argument("--draws", type=int, default=2)
    args = parser.parse_args()
    console = Console()
    found: dict[str, list[str]] = {name: [] for name in SETTINGS}
    for name in args.features:
        backbone = name.startswith("lite") or ":" in name
        eyes = backbone_eyes(get_backbone(name)) if backbone else learner_eyes(find_learner(name), name)
        right: dict[str, list[float]] = {setting: [] for setting in SETTINGS}
        for passage in cells(world_features("validation", eyes, say=console.print), draws=args.draws):
            problem = Problem(passage, int(passage.y.max()) + 1)
            for setting, answer in SETTINGS.items():
                right[setting].append(float((answer(problem).argmax(1) == passage.answers).mean()))
        for setting, values in right.items():
            found[setting].append(f"{100 * np.mean(values):.1f}")
    table = Table("rival", *args.features, title="validation world, mean over cells, %")
    for setting, means in found.items():
        table.add_row(setting, *means)
    console.print(table)


if __name__ == "__main__":
    main()
