"""Run: a run's moving parts, put together from a recipe, a checkpoint or another learner."""

from dataclasses import dataclass
from pathlib import Path

import torch

from autocl.data.sampler import StreamSampler
from autocl.errors import TrainingError
from autocl.learner.fast import Learner
from autocl.learner.find import find_learner
from autocl.learner.state import LearnerState
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


def prepare(recipe: Recipe, folder: Path, ranks: parallel.Ranks, *, resume: bool = False) -> Run:
    """Load data, build the learner and its optimiser: from a checkpoint, from `init_from` or from scratch."""
    lo, hi = ranks.share(recipe.batch_size)
    resume = resume and (folder / checkpoint.FILE_NAME).exists()
    torch.manual_seed(recipe.seed)
    train_sampler, val_sampler = samplers(recipe)
    learner = Learner(recipe.learner)
    if recipe.init_from and not resume:
        learner = _finetuned(recipe)
    learner = learner.to(ranks.device).train()
    if recipe.compile_encoder:
        learner.encoder.compile()
    o = recipe.optimiser
    optimiser = torch.optim.Adam(learner.parameters(), lr=o.lr, betas=o.betas, eps=o.eps)
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


def _finetuned(recipe: Recipe) -> Learner:
    """The learner of `init_from`, with as many classes as the recipe asks for.

    What it lacks of a read-out starts fresh, so that the paper's learners can be finetuned with ours.
    """
    learner = find_learner(recipe.init_from)
    if learner.config.n_classes != recipe.learner.n_classes:
        learner = learner.with_classes(recipe.learner.n_classes)
    # What does not change the weights' shapes is the recipe's to say; the rest must agree.
    fresh = Learner(recipe.learner)
    weights = learner.state_dict()
    if learner.readout is None:
        weights = {**fresh.state_dict(), **weights}
    try:
        fresh.load_state_dict(weights)
    except RuntimeError as error:
        reason = str(error).splitlines()[1].strip()
        raise TrainingError(f"{recipe.init_from} does not fit recipe {recipe.name}: {reason}") from error
    return fresh
