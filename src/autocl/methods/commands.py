"""Meta-train a rival by name, as a function and as lines on a terminal."""

from dataclasses import replace
from pathlib import Path

import torch

from autocl.data import load
from autocl.data.imageset import ImageSet
from autocl.data.requirements import assert_disjoint
from autocl.data.sampler import StreamSampler
from autocl.data.stream_config import StreamConfig
from autocl.errors import InputError
from autocl.methods.meta_training import MetaTraining, StreamLoss, meta_train, stream_loss
from autocl.methods.rival import Rival, RivalConfig

RIVALS = {
    "prototypes": RivalConfig(readout="means", channels=1),
    "gemcl": RivalConfig(readout="normal-gamma", channels=1),
    "gemcl-map": RivalConfig(readout="normal-gamma-map", channels=1),
    "oml": RivalConfig(readout="online", channels=1),
    "anml": RivalConfig(readout="online", channels=1, gated=True, hidden=0),
}
"""What each method must be meta-trained as. All have the Conv-4 encoder of our learners."""

REPORT_EVERY = 50


def train_rival(
    name: str,
    out: Path,
    *,
    steps: int = 1000,
    lr: float = 2e-3,
    streams: int = 16,
    tasks: int = 5,
    ways: int = 2,
    shots: int = 15,
    seed: int = 0,
) -> Rival:
    """Meta-train a rival on Omniglot and save it.

    Args:
        name: prototypes, gemcl, gemcl-map, oml or anml.
        out: safetensors file to write.
        steps: of meta-training.
        lr: of Adam at the start.
        streams: in a step.
        tasks: in a stream, class-incremental.
        ways: of a task.
        shots: demos of each class.
        seed: of weights and streams.
    """
    if name not in RIVALS:
        raise InputError(f"there is no rival {name!r} to meta-train: choose one of {', '.join(RIVALS)}")
    config = StreamConfig(tasks=tasks, ways=ways, shots=shots, queries=10, scenario="class")
    train = load("omniglot", "train", rotations=True)
    held_out = load("omniglot", "val", rotations=True)
    assert_disjoint(train, held_out)
    return train_on(
        name,
        train,
        held_out,
        config,
        out,
        settings=MetaTraining(steps=steps, lr=lr),
        streams=streams,
        seed=seed,
    )


def train_on(
    name: str,
    train: ImageSet,
    held_out: ImageSet,
    config: StreamConfig,
    out: Path,
    *,
    settings: MetaTraining,
    streams: int,
    seed: int,
) -> Rival:
    """`train_rival` on image sets and streams of one's own; `held_out` is only measured, at the end."""
    torch.manual_seed(seed)
    rival = Rival(_with_outputs(RIVALS[name], train, config))
    sampler = StreamSampler([train], config, streams, seed)

    def watch(step: int, outcome: StreamLoss) -> None:
        if step % REPORT_EVERY == 0 or step == settings.steps - 1:
            loss = float(outcome.loss.detach())
            print(f"step {step}: loss {loss:.4f}, accuracy {100 * outcome.accuracy:.1f} %", flush=True)

    meta_train(rival, sampler, settings, watch=watch)
    batch = (check := StreamSampler([held_out], config, streams, seed)).batch(0)
    with torch.no_grad():
        outcome = stream_loss(
            rival, rival.encoder(check.images(batch, channels=rival.config.channels)), batch
        )
    rival.save(out)
    print(f"held-out classes: {100 * outcome.accuracy:.1f} % after the last task; saved to {out}")
    return rival


def _with_outputs(config: RivalConfig, images: ImageSet, streams: StreamConfig) -> RivalConfig:
    """As many outputs as the streams have, and the image set's own size."""
    height, width = images.images.shape[2:]
    return replace(config, height=height, width=width, n_outputs=streams.n_outputs)
