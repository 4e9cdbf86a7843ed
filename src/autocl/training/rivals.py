"""Meta-train a rival: streams, images, checkpoints and log as for our learners, another thing that learns.

Streams, augmentation and dropout are functions of (seed, step), so a run that was killed continues bit for
bit from its checkpoint.
"""

import math
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch

from autocl.data.sampler import StreamSampler
from autocl.errors import TrainingError
from autocl.files import write_json
from autocl.methods.meta_training import stream_loss
from autocl.methods.rival import Rival
from autocl.training import checkpoint
from autocl.training.checkpoint import Progress
from autocl.training.interrupt import InterruptedRunError, signals
from autocl.training.log import RunLog
from autocl.training.prototype import prototype_loss
from autocl.training.recipe import FILE_NAME, Optimiser
from autocl.training.rival_recipe import RivalRecipe, read_rival_recipe
from autocl.training.schedule import learning_rate
from autocl.training.sources import VALIDATION_SEED, load_sets

BEST, CARD = "best.safetensors", "card.json"


@dataclass(kw_only=True)
class RivalRun:
    """A run's moving parts."""

    recipe: RivalRecipe
    folder: Path
    rival: Rival
    optimiser: torch.optim.Adam
    train: StreamSampler
    val: StreamSampler
    progress: Progress


def train_rival(
    recipe: RivalRecipe, folder: str | Path, *, resume: bool = False, save_every: float = 120.0
) -> Path:
    """Meta-train a rival.

    Args:
        recipe: what to do.
        folder: where recipe.json, log.jsonl, last.safetensors, best.safetensors and card.json go.
        resume: continue the run in that folder; one that was killed before its first checkpoint starts anew.
        save_every: seconds between checkpoints; one is also written at every validation.

    Returns:
        The file of the best rival by validation.

    Raises:
        TrainingError: when the run cannot start or go on. The last checkpoint stands.
        InterruptedRunError: after SIGINT or SIGTERM, when the checkpoint is written.

    Example:
        >>> from autocl.recipes.rivals import gemcl
        >>> train_rival(gemcl(), "rivals/gemcl")                                           # doctest: +SKIP
        PosixPath('rivals/gemcl/best.safetensors')
    """
    folder = Path(folder)
    if resume:
        if read_rival_recipe(folder) != recipe:
            raise TrainingError(f"{folder} was not started with this recipe of rival {recipe.name}")
    elif (folder / checkpoint.FILE_NAME).exists():
        raise TrainingError(f"{folder} holds a run: continue it with --resume, or choose another --out")
    run = prepare_rival(recipe, folder, resume=resume)
    size = sum(p.numel() * p.element_size() for p in run.rival.parameters())
    checkpoint.check_space(folder, 3 * size)  # weights and Adam's two moments
    write_json(folder / FILE_NAME, asdict(recipe))
    at = run.progress
    with (
        RunLog(folder, total=recipe.steps, at=at.step, length=at.log_bytes) as log,
        signals() as received,
    ):
        _loop(run, log, received, save_every)
    return folder / BEST


def prepare_rival(recipe: RivalRecipe, folder: Path, *, resume: bool = False) -> RivalRun:
    """Load data, build the rival and its optimiser: from a checkpoint or from scratch."""
    torch.manual_seed(recipe.seed)
    rival = Rival(recipe.rival).train()
    optimiser = torch.optim.Adam(rival.parameters(), lr=recipe.lr)
    progress = Progress()
    if resume and (folder / checkpoint.FILE_NAME).exists():
        progress, _ = checkpoint.load(folder, rival, optimiser)
    train, val = load_sets(recipe.source, size=recipe.rival.height, channels=recipe.rival.channels)
    judged = replace(recipe.streams, min_shots=None)
    return RivalRun(
        recipe=recipe, folder=folder, rival=rival, optimiser=optimiser, progress=progress,
        train=StreamSampler([train], recipe.streams, recipe.batch_size, recipe.seed),
        val=StreamSampler([val], judged, recipe.batch_size, VALIDATION_SEED),
    )  # fmt: skip


def _loop(run: RivalRun, log: RunLog, received: list[int], save_every: float) -> None:
    recipe, progress = run.recipe, run.progress
    saved = began = time.monotonic()
    while progress.step < recipe.steps:
        values = rival_step(run, progress.step)
        progress.step += 1
        now = time.monotonic()
        progress.seconds += now - began
        began = now
        log.record(progress.step - 1, {**values, "seconds": progress.seconds})
        log.show(progress.step, f"loss {values['loss']:.3f}  accuracy {100 * values['accuracy']:.1f} %")
        if validated := progress.step % recipe.validate_every == 0 or progress.step == recipe.steps:
            _validate(run, log)
        if validated or received or now - saved > save_every:
            progress.log_bytes = log.length
            checkpoint.save(run.folder, run.rival, run.optimiser, progress, None)
            saved = began = time.monotonic()
        if received:
            raise InterruptedRunError(received[0], run.folder)


def rival_step(run: RivalRun, step: int) -> dict[str, float]:
    """One step of the optimiser. Nothing changes unless loss and gradient are finite."""
    recipe, rival = run.recipe, run.rival
    # Dropout; the third word keeps it apart from the seeds of streams and augmentation.
    dropout = np.random.SeedSequence((recipe.seed, step, 2)).generate_state(1, np.uint64)
    torch.manual_seed(int(dropout[0] >> np.uint64(1)))
    cosine = Optimiser(lr=recipe.lr, schedule="cosine", warmup=recipe.warmup)
    rate = learning_rate(cosine, step, steps=recipe.steps, width=rival.encoder.n_features)
    for group in run.optimiser.param_groups:
        group["lr"] = rate
    batch = run.train.batch(step)
    images = run.train.images(batch, channels=recipe.rival.channels, augment=[recipe.source.augment])
    features = rival.encoder(images)
    outcome = stream_loss(rival, features, batch)
    loss = outcome.loss
    if recipe.prototype:
        loss = loss + recipe.prototype * prototype_loss(features, batch.pool_classes)
    run.optimiser.zero_grad(set_to_none=True)
    torch.autograd.backward(loss)
    weights = list(rival.parameters())
    norm = torch.nn.utils.get_total_norm([w.grad for w in weights if w.grad is not None])
    for name, value in (("loss", loss.detach()), ("norm of the gradient", norm)):
        if not math.isfinite(value):
            raise TrainingError(
                f"the {name} became {float(value)} at step {step} (seed {recipe.seed}); the last good "
                f"checkpoint is in {run.folder}. Lower lr ({recipe.lr}) or rival.rate ({recipe.rival.rate})"
            )
    torch.nn.utils.clip_grads_with_norm_(weights, recipe.clip, norm)
    run.optimiser.step()
    return {"loss": float(loss.detach()), "gradient": float(norm), "rate": rate, "accuracy": outcome.accuracy}


@torch.no_grad()
def _validate(run: RivalRun, log: RunLog) -> None:
    """Score the rival on validation classes; keep it, and write its card, if it is the best so far."""
    recipe, progress, rival = run.recipe, run.progress, run.rival.eval()
    scores = []
    for number in range(recipe.validate_batches):
        batch = run.val.batch(number)
        features = rival.encoder(run.val.images(batch, channels=recipe.rival.channels))
        scores.append(stream_loss(rival, features, batch).accuracy)
    rival.train()
    score = sum(scores) / len(scores)
    if score > progress.best_score:
        progress.best_score, progress.best_step = score, progress.step
        rival.save(run.folder / BEST, meta={"recipe": recipe.name, "step": str(progress.step)})
        write_json(
            run.folder / CARD,
            {
                "name": recipe.name,
                "weights": sum(p.numel() for p in rival.parameters()),
                "step": progress.step,
                "seconds": round(progress.seconds),
                "validation": {
                    "set": f"{recipe.source.title}, validation classes",
                    "streams": recipe.validate_batches * recipe.batch_size,
                    "accuracy": round(100 * score, 2),
                },
                "recipe": asdict(recipe),
            },
        )
    log.record(progress.step, {"validation/score": score})
    log.say(
        f"step {progress.step}: validation {100 * score:.2f} % "
        f"(best {100 * progress.best_score:.2f} % at step {progress.best_step})"
    )
