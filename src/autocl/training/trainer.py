"""The training loop.

Everything random is a function of (seed, step, rank): streams, augmentation, dropout. So a run that is
killed and resumed continues bit for bit, on the same machine and number of threads.
"""

import math
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import numpy as np
import torch

from autocl.data.sampler import StreamSampler
from autocl.errors import TrainingError
from autocl.files import write_json
from autocl.learner import Learner
from autocl.matrix import TransferMatrix
from autocl.objective import Outcome
from autocl.state import LearnerState
from autocl.training import checkpoint, parallel, validation
from autocl.training.checkpoint import Progress
from autocl.training.log import RunLog
from autocl.training.recipe import Recipe, recipe_to_dict
from autocl.training.schedule import learning_rate
from autocl.training.sources import samplers
from autocl.training.step import TrainingStep

BEST = "best.safetensors"


class InterruptedRunError(Exception):
    """A signal asked the run to end; its checkpoint is written."""

    def __init__(self, signum: int) -> None:
        super().__init__(f"stopped by {signal.Signals(signum).name}; continue with --resume")
        self.signum = signum


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
        folder: where recipe.json, log.jsonl, last.safetensors and best.safetensors go.
        resume: continue the run in that folder.
        device: "auto", "cpu" or "cuda".
        save_every: seconds between checkpoints; one is also written at every validation and at the end.

    Returns:
        The file of the best learner by validation.
    """
    folder = Path(folder)
    with parallel.ranks(device) as ranks:
        run = prepare(recipe, folder, ranks)
        if resume:
            run.progress, run.carried = checkpoint.load(folder, run.learner, run.optimiser)
        elif (folder / checkpoint.FILE_NAME).exists():
            raise TrainingError(f"{folder} holds a run: continue it with --resume, or choose another --out")
        if ranks.first:
            size = sum(p.numel() * p.element_size() for p in run.learner.parameters())
            checkpoint.check_space(folder, 3 * size)  # weights and Adam's two moments
            write_json(folder / "recipe.json", recipe_to_dict(recipe))
        at, place = run.progress, folder if ranks.first else None
        with (
            RunLog(place, total=recipe.steps, at=at.step, length=at.log_bytes) as log,
            _signals() as received,
        ):
            _loop(run, log, received, save_every)
        return folder / BEST


def prepare(recipe: Recipe, folder: Path, ranks: parallel.Ranks) -> Run:
    """Load data, build the learner and its optimiser, from scratch or from `init_from`."""
    torch.manual_seed(recipe.seed)
    train_sampler, val_sampler = samplers(recipe)
    learner = Learner(recipe.learner)
    if recipe.init_from:
        learner = _finetuned(recipe)
    learner = learner.to(ranks.device).train()
    if recipe.compile_encoder:
        learner.encoder.compile()
    o = recipe.optimiser
    optimiser = torch.optim.Adam(learner.parameters(), lr=o.lr, betas=o.betas, eps=o.eps)
    return Run(
        recipe=recipe, folder=folder, ranks=ranks, learner=learner, optimiser=optimiser,
        train=train_sampler, val=val_sampler, progress=Progress(),
    )  # fmt: skip


def _finetuned(recipe: Recipe) -> Learner:
    """The learner of `init_from`, with as many classes as the recipe asks for."""
    learner = Learner.from_pretrained(recipe.init_from)
    if learner.config.n_classes != recipe.learner.n_classes:
        learner = learner.with_classes(recipe.learner.n_classes)
    # What does not change the weights' shapes is the recipe's to say; the rest must agree.
    fresh = Learner(recipe.learner)
    try:
        fresh.load_state_dict(learner.state_dict())
    except RuntimeError as error:
        reason = str(error).splitlines()[1].strip()
        raise TrainingError(f"{recipe.init_from} does not fit recipe {recipe.name}: {reason}") from error
    return fresh


def _loop(run: Run, log: RunLog, received: list[int], save_every: float) -> None:
    recipe, progress, ranks = run.recipe, run.progress, run.ranks
    module = ranks.wrap(TrainingStep(run.learner, recipe))
    # A long run need not log each of its hundred thousands of steps.
    log_stride = max(1, recipe.steps // 20_000)
    saved = began = time.monotonic()
    if progress.step == 0:
        _validate(run, log)
    while progress.step < recipe.steps:
        step = progress.step
        try:
            outcome, loss = train_step(run, module, step)
        except RuntimeError as error:
            if ranks.world > 1:
                _save(run, log)
                raise TrainingError(
                    f"another process failed at step {step} ({error}); continue with --resume"
                ) from error
            raise
        if not math.isfinite(loss):
            raise TrainingError(
                f"the loss became {loss} at step {step} (seed {recipe.seed}); the last good checkpoint is "
                f"{run.folder / checkpoint.FILE_NAME}. Lower optimiser.lr or set optimiser.clip"
            )
        progress.step = step + 1
        now = time.monotonic()
        progress.seconds += now - began
        began = now
        if step % log_stride == 0 or progress.step == recipe.steps:
            log.record(step, {"loss": loss, "seconds": progress.seconds, **_terms(outcome, run)})
        log.show(progress.step, _note(outcome, loss, recipe, progress))
        if progress.step % recipe.validation.every == 0 or progress.step == recipe.steps:
            _validate(run, log)
            _save(run, log)
            saved = began = time.monotonic()
            if recipe.validation.patience and progress.stale >= recipe.validation.patience:
                log.say(f"stopped early: no better validation for {progress.stale} times")
                return
        stop = ranks.any(received[0] if received else 0)
        if stop or now - saved > save_every:
            _save(run, log)
            saved = now
        if stop:
            raise InterruptedRunError(stop)


def train_step(run: Run, module: torch.nn.Module, step: int) -> tuple[Outcome, float]:
    """One step of the optimiser; returns what the last batch of it measured, and the mean loss."""
    recipe, ranks = run.recipe, run.ranks
    torch.manual_seed(_dropout_seed(recipe.seed, step, ranks.rank))
    rate = learning_rate(recipe.optimiser, step, steps=recipe.steps, width=recipe.learner.model_width)
    for group in run.optimiser.param_groups:
        group["lr"] = rate
    run.optimiser.zero_grad(set_to_none=True)
    lo, hi = ranks.share(recipe.batch_size)
    weight = recipe.prototype_weight(step)
    parts = recipe.optimiser.accumulate
    total = 0.0
    for part in range(parts):
        number = step * parts + part
        batch = run.train.batch(number, lo, hi).to(ranks.device)
        images = run.train.images(batch, channels=recipe.learner.channels, augment=recipe.augment)
        if not recipe.carry_state or number % (recipe.carry_state + 1) == 0:
            run.carried = None
        loss, outcome = module(images.to(ranks.device), batch, run.carried, weight)
        (loss / parts).backward()
        total += loss.item() / parts
        run.carried = outcome.state.detach() if recipe.carry_state else None
    if recipe.optimiser.clip:
        torch.nn.utils.clip_grad_norm_(run.learner.parameters(), recipe.optimiser.clip)
    if math.isfinite(total):
        run.optimiser.step()
    return outcome, total


def _dropout_seed(seed: int, step: int, rank: int) -> int:
    return int(np.random.SeedSequence((seed, step, rank, 2)).generate_state(1, np.uint64)[0] >> 1)


def _validate(run: Run, log: RunLog) -> None:
    """Score the learner; keep it if it is the best so far."""
    if not run.ranks.first:
        return
    rule, progress = run.recipe.validation, run.progress
    run.learner.eval()
    if rule.split:
        matrices = validation.validate_split(run.learner, rule.split, run.recipe)
    else:
        matrices = validation.validate_streams(run.learner, run.val, rule.batches)
    run.learner.train()
    value = sum(validation.score(m, rule.rule) for m in matrices) / len(matrices)
    progress.stale += 1
    if value > progress.best_score:
        progress.best_score, progress.best_step, progress.stale = value, progress.step, 0
        meta = {"recipe": run.recipe.name, "step": str(progress.step), "validation": f"{value:.4f}"}
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
    if run.ranks.first:
        run.progress.log_bytes = log.length
        checkpoint.save(run.folder, run.learner, run.optimiser, run.progress, run.carried)


def _terms(outcome: Outcome, run: Run) -> dict[str, float]:
    """Loss terms and accuracies apart by image set and position, as the paper's Figure 2 needs them."""
    values: dict[str, float] = {}
    losses, accuracies = outcome.losses.values.cpu(), outcome.accuracies.values.cpu()
    for j in range(len(losses)):
        source = outcome.sources[j]
        name = f"{run.recipe.sources[source].name if source >= 0 else 'mixture'}/{j + 1}"
        values[f"term/{name}/own"] = float(losses[j, j])
        values[f"accuracy/{name}/own"] = float(accuracies[j, j])
        values[f"term/{name}/first"] = float(outcome.first[j])
        if j + 1 < len(losses):
            values[f"term/{name}/back"] = float(losses[j + 1 :, j].mean())
            values[f"accuracy/{name}/back"] = float(accuracies[j + 1 :, j].mean())
    return values


def _note(outcome: Outcome, loss: float, recipe: Recipe, progress: Progress) -> str:
    """Loss, accuracies of all tasks at the end of the stream, and speed."""
    last = " ".join(f"{100 * a:.0f}" for a in outcome.accuracies.last.tolist())
    speed = progress.step * recipe.batch_size * recipe.optimiser.accumulate / max(progress.seconds, 1e-9)
    return f"loss {loss:.3f}  accuracy at the end [{last}] %  {speed:.1f} streams/s"


@contextmanager
def _signals() -> Iterator[list[int]]:
    """Note SIGINT and SIGTERM instead of dying of them; a second one ends the process at once."""
    received: list[int] = []

    def note(signum: int, frame: FrameType | None) -> None:
        if received:
            raise KeyboardInterrupt
        received.append(signum)

    try:
        old = {s: signal.signal(s, note) for s in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not in the main thread: signals are somebody else's business
        yield received
        return
    try:
        yield received
    finally:
        for s, handler in old.items():
            signal.signal(s, handler)
