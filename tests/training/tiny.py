"""A run small enough for a test: a few drawn glyphs of 16×16, a learner of two thousand weights."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from autocl.data.stream_config import StreamConfig
from autocl.encoders import EncoderConfig
from autocl.files import read_tensors
from autocl.learner.config import LearnerConfig
from autocl.training.log import read_log
from autocl.training.recipe import Optimiser, Recipe, Source, Validation

# The ridge read-out is better than chance from the first step on, so that validations differ.
LEARNER = LearnerConfig(
    n_classes=2, channels=1, height=16, width=16, encoder=EncoderConfig(width=4),
    model_width=16, heads=2, depth=1, label_scale=10, readout="ridge", readout_keys=8,
)  # fmt: skip
RECIPE = Recipe(
    name="tiny",
    sources=(Source(name="glyphs", classes=24),),
    streams=StreamConfig(tasks=2, ways=2, shots=2, queries=4, pool_classes=6, pool_images=4),
    learner=LEARNER,
    optimiser=Optimiser(lr=1e-2, schedule="cosine", warmup=2, clip=1.0),
    validation=Validation(every=4, batches=2),
    prototype=1.0,
    steps=12,
    batch_size=4,
)
COMMAND_LINE = """
    --sources.0.classes 24 --streams.ways 2 --streams.shots 2 --streams.queries 4 --streams.pool-classes 6
    --streams.pool-images 4 --learner.n-classes 2 --learner.height 16 --learner.width 16
    --learner.encoder.width 4 --learner.model-width 16 --learner.heads 2 --learner.depth 1
    --learner.readout ridge --learner.readout-keys 8 --validation.every 4 --validation.batches 2
    --batch-size 4
"""
"""The same as options of `autocl train quick`, apart from the optimiser; to be split."""


def tiny(**changes: Any) -> Recipe:
    return replace(RECIPE, **changes)


def without_dropout(**changes: Any) -> Recipe:
    learner = replace(LEARNER, dropout=0.0, encoder=EncoderConfig(width=4, dropout=0.0))
    return tiny(learner=learner, **changes)


def lines(folder: Path) -> list[dict[str, Any]]:
    """The log without the times, which no two runs share."""
    return [{k: v for k, v in line.items() if k != "seconds"} for line in read_log(folder / "log.jsonl")]


def assert_same_run(a: Path, b: Path) -> None:
    """Two finished runs have the same log, weights, moments, carried state and best learner, bit for bit."""
    assert lines(a) == lines(b)
    for name, kind in (("best.safetensors", "learner"), ("last.safetensors", "checkpoint")):
        (ours, our_meta), (theirs, their_meta) = (read_tensors(f / name, kind=kind) for f in (a, b))
        assert ours.keys() == theirs.keys()
        assert not [n for n, t in ours.items() if not torch.equal(t, theirs[n])]
        if kind == "learner":
            assert our_meta == their_meta
