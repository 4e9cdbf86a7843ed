"""Run: a run's moving parts, put together from a recipe, a checkpoint or another learner."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import torch

from autocl.data.sampler import StreamSampler
from autocl.errors import TrainingError
from autocl.learner import Learner, LearnerState
from autocl.learner.find import find_learner
from autocl.training import checkpoint, parallel
from autocl.training.checkpoint import Progress
from autocl.training.recipe import Recipe
from autocl.training.sources import samplers


@dataclass(kw_only=True)
class Run:
    """A run's moving parts."""

    recipe: Recipe
    folder: Path
    ranks: parallel.Ranks
    learner: Learner
    optimiser: torch.optim.Adam
    train: StreamSampler
    val: StreamSampler
    progress: Progress
    carried: LearnerState | None = None
    """State that this rank's streams of the next batch start from; None: the initial one."""


def prepare(
    recipe: Recipe,
    folder: Path,
    ranks: parallel.Ranks,
    *,
    resume: bool = False,
    start: Path | None = None,
) -> Run:
    """Load data, build the learner and its optimiser.

    Args:
        recipe: of one stage.
        folder: where its checkpoint is.
        ranks: this process and its peers.
        resume: go on from the checkpoint, if there is one.
        start: the learner of the stage before; default: that of `init_from`, or fresh weights.
    """
    lo, hi = ranks.local_slice(recipe.batch_size)
    resume = resume and (folder / checkpoint.FILE_NAME).exists()
    torch.manual_seed(recipe.seed)
    train_sampler, val_sampler = samplers(recipe)
    learner = Learner(recipe.learner)
    source = start or recipe.init_from
    if source and not resume:
        learner = _finetuned(recipe, source)
    learner = learner.to(ranks.device).train()
    o = recipe.optimiser
    trained = [p for p in learner.parameters() if p.requires_grad]
    optimiser = torch.optim.Adam(trained, lr=o.lr, betas=o.betas, eps=o.eps, fused=True)
    run = Run(
        recipe=recipe, folder=folder, ranks=ranks, learner=learner, optimiser=optimiser,
        train=train_sampler, val=val_sampler, progress=Progress(),
    )  # fmt: skip
    if resume:
        run.progress, carried = checkpoint.load(folder, learner, optimiser)
        run.carried = None if carried is None else carried[lo:hi]
    (furthest,) = ranks.agree(run.progress.step)
    if furthest != run.progress.step:
        raise TrainingError(
            f"rank {ranks.rank} would start at step {run.progress.step}, another one at {furthest}: all "
            f"machines must see {folder} to resume"
        )
    return run


def _finetuned(recipe: Recipe, source: Path | str) -> Learner:
    """A learner that was trained before, with as many classes as the recipe asks for.

    What it lacks of a read-out starts fresh, so that the paper's learners can be finetuned with ours.
    """
    learner = find_learner(source)
    if type(learner.config) is not type(recipe.learner):
        raise TrainingError(
            f"{source} is a learner of another kind ({type(learner.config).__name__}) than recipe "
            f"{recipe.name} trains ({type(recipe.learner).__name__})"
        )
    if learner.config.n_classes != recipe.learner.n_classes:
        learner = learner.with_classes(recipe.learner.n_classes)
    # What does not change the weights' shapes is the recipe's to say; the rest must agree.
    fresh = Learner(recipe.learner)
    weights = learner.weights()
    if learner.readout is None:
        weights = {**fresh.weights(), **weights}
    try:
        fresh.load_weights(weights)
    except RuntimeError as error:
        reason = str(error).splitlines()[1].strip()
        raise TrainingError(f"{source} does not fit recipe {recipe.name}: {reason}") from error
    return fresh


class InterruptedRunError(Exception):
    """A signal asked the run to end; its checkpoint is written."""

    def __init__(self, signum: int, folder: Path) -> None:
        name = signal.Signals(signum).name
        super().__init__(f"stopped by {name}; continue with autocl train --resume {folder}")
        self.signum = signum


@contextmanager
def signals() -> Iterator[list[int]]:
    """Note SIGINT, SIGTERM and SIGHUP in the list that is yielded; a second one ends the process at once."""
    received: list[int] = []

    def note(signum: int, frame: FrameType | None) -> None:
        if received:
            raise KeyboardInterrupt if signum == signal.SIGINT else SystemExit(128 + signum)
        received.append(signum)
        # Not print(): the signal may have come in the middle of one, and streams are not reentrant.
        with suppress(OSError):  # a closed terminal takes no message
            os.write(2, b"\nsaving after this step; interrupt again to stop at once\n")

    try:
        old = {s: signal.signal(s, note) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    except ValueError:  # not in the main thread: signals are somebody else's business
        yield received
        return
    try:
        yield received
    finally:
        for s, handler in old.items():
            signal.signal(s, handler)
