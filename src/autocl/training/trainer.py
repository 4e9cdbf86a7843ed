"""The training loop.

Everything random is a function of (seed, step, rank): streams, augmentation, dropout. So a run that is
killed and resumed continues bit for bit, on the same machine and number of threads.
"""

import math
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch.linalg import LinAlgError  # type: ignore[attr-defined]  # documented, but not in __all__

from autocl.errors import TrainingError
from autocl.files import write_json
from autocl.matrix import TransferMatrix
from autocl.objective import Outcome
from autocl.training import checkpoint, parallel, validation
from autocl.training import recipe as recipes
from autocl.training.interrupt import InterruptedRunError, signals
from autocl.training.log import RunLog, note, terms
from autocl.training.recipe import Recipe, provenance
from autocl.training.run import Run, prepare
from autocl.training.schedule import learning_rate
from autocl.training.step import TrainingStep

BEST = "best.safetensors"


@dataclass(frozen=True, kw_only=True)
class StepResult:
    """What one step of the optimiser measured; means over all ranks."""

    loss: float
    """What was minimised, with the prototype loss; the mean over accumulated batches."""
    gradient: float
    """Norm of the gradient before clipping."""
    rate: float
    """Learning rate."""
    outcome: Outcome
    """Of the last accumulated batch."""


def train(
    recipe: Recipe,
    folder: str | Path,
    *,
    resume: bool = False,
    device: str = "auto",
    save_every: float = 120.0,
) -> Path:
    """Meta-train a learner.

    Args:
        recipe: what to do.
        folder: where recipe.json, log.jsonl, last.safetensors and best.safetensors go. To resume a run of
            several machines, all of them must see it.
        resume: continue the run in that folder; one that was killed before its first checkpoint starts anew.
        device: "auto", "cpu" or "cuda".
        save_every: seconds between checkpoints; one is also written at every validation and at the end.

    Returns:
        The file of the best learner by validation.

    Raises:
        TrainingError: when the run cannot start or go on. The last checkpoint stands.
        InterruptedRunError: after SIGINT or SIGTERM, when the checkpoint is written.
    """
    folder = Path(folder)
    if resume:
        if differ := recipes.differences(recipe, recipes.read_recipe(folder)):
            raise TrainingError(f"{folder} was started with another recipe ({'; '.join(differ)})")
    elif (folder / checkpoint.FILE_NAME).exists():
        raise TrainingError(f"{folder} holds a run: continue it with --resume, or choose another --out")
    with parallel.ranks(device) as ranks:
        run = prepare(recipe, folder, ranks, resume=resume)
        if ranks.first:
            size = sum(p.numel() * p.element_size() for p in run.learner.parameters())
            checkpoint.check_space(folder, 3 * size)  # weights and Adam's two moments
            write_json(folder / recipes.FILE_NAME, recipes.recipe_to_dict(recipe))
        at, place = run.progress, folder if ranks.first else None
        with (
            RunLog(place, total=recipe.steps, at=at.step, length=at.log_bytes) as log,
            signals() as received,
        ):
            try:
                _loop(run, log, received, save_every)
            except RuntimeError as error:
                if ranks.world == 1:
                    raise
                _rescue(run, log)
                raise TrainingError(
                    f"rank {ranks.rank} of {ranks.world} cannot go on at step {run.progress.step}, most "
                    f"likely because another one died: {error}. Continue with --resume"
                ) from error
        return folder / BEST


def _loop(run: Run, log: RunLog, received: list[int], save_every: float) -> None:
    recipe, progress, ranks = run.recipe, run.progress, run.ranks
    # Streams that start from a carried state leave the meta-learned initial state out.
    module = ranks.wrap(TrainingStep(run.learner, recipe), some_unused=recipe.carry_state > 0)
    # A long run need not log each of its hundred thousands of steps.
    log_stride = max(1, recipe.steps // 20_000)
    if progress.step == 0:
        _validate(run, log)
        _save(run, log)
    saved = began = time.monotonic()
    while progress.step < recipe.steps and not _stale(run):
        step = progress.step
        result = train_step(run, module, step)
        progress.step = step + 1
        now = time.monotonic()
        progress.seconds += now - began
        began = now
        if step % log_stride == 0 or progress.step == recipe.steps:
            log.record(step, _values(run, result))
        speed = progress.step * recipe.batch_size * recipe.optimiser.accumulate / max(progress.seconds, 1e-9)
        log.show(progress.step, note(result.loss, result.outcome, speed))
        if validated := progress.step % recipe.validation.every == 0 or progress.step == recipe.steps:
            _validate(run, log)
        stop, due = ranks.agree(received[0] if received else 0, int(now - saved > save_every))
        if validated or stop or due:
            _save(run, log)
            saved = began = time.monotonic()
        if stop:
            raise InterruptedRunError(stop, run.folder)
    if progress.step < recipe.steps:
        log.say(f"stopped early: no better validation for {progress.stale} times")


def train_step(run: Run, module: torch.nn.Module, step: int) -> StepResult:
    """One step of the optimiser. Nothing of the run changes unless loss and gradient are finite."""
    recipe, ranks = run.recipe, run.ranks
    torch.manual_seed(_dropout_seed(recipe.seed, step, ranks.rank))
    rate = learning_rate(recipe.optimiser, step, steps=recipe.steps, width=recipe.learner.model_width)
    for group in run.optimiser.param_groups:
        group["lr"] = rate
    run.optimiser.zero_grad(set_to_none=True)
    lo, hi = ranks.share(recipe.batch_size)
    weight = recipe.prototype_weight(step)
    parts = recipe.optimiser.accumulate
    carried, total = run.carried, torch.zeros((), device=ranks.device)
    for part in range(parts):
        number = step * parts + part
        batch = run.train.batch(number, lo, hi).to(ranks.device)
        images = run.train.images(batch, channels=recipe.learner.channels, augment=recipe.augments)
        if not recipe.carry_state or number % (recipe.carry_state + 1) == 0:
            carried = None
        try:
            loss, outcome = module(images.to(ranks.device), batch, carried, weight)
        except LinAlgError as error:  # a ridge read-out whose system lost its rank
            raise _diverged(run, str(error)) from error
        (loss / parts).backward()
        total += loss.detach() / parts
        carried = outcome.state.detach() if recipe.carry_state else None
    total, *shared = ranks.mean(total, outcome.losses.values, outcome.accuracies.values, outcome.first)
    losses, accuracies, first = shared
    outcome = replace(
        outcome, losses=TransferMatrix(losses), accuracies=TransferMatrix(accuracies), first=first
    )
    weights = list(run.learner.parameters())
    norm = torch.nn.utils.get_total_norm([w.grad for w in weights if w.grad is not None])
    for name, value in (("loss", total), ("norm of the gradient", norm)):
        if not math.isfinite(value):
            raise _diverged(run, f"the {name} became {float(value)}")
    if recipe.optimiser.clip:
        torch.nn.utils.clip_grads_with_norm_(weights, recipe.optimiser.clip, norm)
    run.optimiser.step()
    run.carried = carried
    return StepResult(loss=float(total), gradient=float(norm), rate=rate, outcome=outcome)


def _diverged(run: Run, what: str) -> TrainingError:
    return TrainingError(
        f"{what} at step {run.progress.step} (seed {run.recipe.seed}); the last good checkpoint is "
        f"{run.folder / checkpoint.FILE_NAME}. Lower optimiser.lr or set optimiser.clip"
    )


def _dropout_seed(seed: int, step: int, rank: int) -> int:
    return int(np.random.SeedSequence((seed, step, rank, 2)).generate_state(1, np.uint64)[0] >> 1)


def _stale(run: Run) -> bool:
    """Whether validation has not improved for as long as the recipe has patience."""
    return 0 < run.recipe.validation.patience <= run.progress.stale


def _validate(run: Run, log: RunLog) -> None:
    """Score the learner on the first rank; keep it if it is the best so far."""
    if run.ranks.first:
        _score(run, log)
    (run.progress.stale,) = run.ranks.agree(run.progress.stale if run.ranks.first else 0)


def _score(run: Run, log: RunLog) -> None:
    how, rule, progress = run.recipe.validation, run.recipe.rule, run.progress
    run.learner.eval()
    if how.split:
        matrices = validation.validate_split(run.learner, how.split, run.recipe)
    else:
        matrices = validation.validate_streams(run.learner, run.val, how.batches, one_order=rule == "paper")
    run.learner.train()
    value = sum(validation.score(m, rule) for m in matrices) / len(matrices)
    progress.stale += 1
    if value > progress.best_score:
        progress.best_score, progress.best_step, progress.stale = value, progress.step, 0
        meta = {**provenance(run.recipe), "step": str(progress.step), "validation": f"{value:.4f}"}
        run.learner.save_pretrained(run.folder / BEST, meta=meta)
    shown: dict[str, object] = {"validation/score": value}
    if len({m.tasks for m in matrices}) == 1:
        mean = TransferMatrix(torch.stack([m.values for m in matrices]).mean(0).cpu())
        shown["validation/matrix"] = mean.to_lists()
        shown["validation/backward"] = float(mean.backward_transfer())
    log.record(progress.step, shown)
    log.say(
        f"step {progress.step}: validation {100 * value:.2f} % "
        f"(best {100 * progress.best_score:.2f} % at step {progress.best_step})"
    )


def _save(run: Run, log: RunLog) -> None:
    carried = None if run.carried is None else run.ranks.gather(run.carried)
    if run.ranks.first:
        run.progress.log_bytes = log.length
        checkpoint.save(run.folder, run.learner, run.optimiser, run.progress, carried)


def _rescue(run: Run, log: RunLog) -> None:
    """Save when another rank is lost; but its carried states are gone, so with them the last save stands."""
    if run.carried is None:
        _save(run, log)


def _values(run: Run, result: StepResult) -> dict[str, float]:
    """One line of the log."""
    return {
        "loss": result.loss,
        "gradient": result.gradient,
        "rate": result.rate,
        "seconds": run.progress.seconds,
        **terms(result.outcome, [s.title for s in run.recipe.sources]),
    }
