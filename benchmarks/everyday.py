"""Streams of random shape, one image set at a time: `python -m benchmarks.everyday everyday runs/mine`.

The score that chooses checkpoints of `fast_everyday` is one mean over all its streams. Here its image sets
are apart; then come streams that go from one set to another, and streams whose classes share a few labels.
`--parts` also asks what body and read-out answer alone. All over classes that validate: never trained on,
never a test set.
"""

import argparse
from dataclasses import replace

from benchmarks.parts import accuracy, parts
from rich.console import Console
from rich.table import Table

from autocl.data import StreamSampler
from autocl.learner.find import find_learner
from autocl.recipes.fast import fast_everyday
from autocl.training.run import samplers

SEED = 7
"""Not the seed of the streams that chose the checkpoint."""


def streams_by_kind(batch_size: int = 24) -> dict[str, StreamSampler]:
    """Validation streams over each of the recipe's sets, and over all of them: mixed, and sharing labels."""
    _, val = samplers(fast_everyday())
    plain = replace(val.config, sets_per_step=1, share_chance=0.0)
    kinds = {images.name: StreamSampler([images], plain, batch_size, SEED) for images in val.sets}
    mixed, shared = replace(plain, sets_per_step=2, mix_chance=1.0), replace(plain, share_chance=1.0)
    return kinds | {
        "mixed": StreamSampler(val.sets, mixed, batch_size, SEED),
        "shared": StreamSampler(val.sets, shared, batch_size, SEED),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("learners", nargs="+", help="names in the zoo, files, or folders of runs; 20 outputs")
    parser.add_argument("--batches", type=int, default=16, help="of 24 streams each, for each column")
    parser.add_argument("--parts", action="store_true", help="ask body and read-out alone, too")
    options = parser.parse_args()
    kinds = streams_by_kind()
    table = Table("learner", *kinds, title="validation classes, %")
    for name in options.learners:
        learner = find_learner(name)
        asked = parts(learner) if options.parts else {"whole": learner}
        for part, candidate in asked.items():
            found = [accuracy(candidate, sampler, options.batches) for sampler in kinds.values()]
            label = name if part == "whole" else f"{name}, {part}"
            table.add_row(label, *(f"{a:.1f}" for a in found))
    Console().print(table)


if __name__ == "__main__":
    main()
