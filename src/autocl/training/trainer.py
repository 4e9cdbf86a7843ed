"""The training loop, stage by stage, and the validation that chooses checkpoints.

Everything random is a function of (seed, step, rank). So a run that is killed and resumed continues bit for
bit, on the same machine and number of threads. Checkpoints are compared on validation classes or on held-out
training images, never on test sets.
"""

import re
import time
from contextlib import nullcontext
from pathlib import Path

import torch
from torch.linalg import LinAlgError  # type: ignore[attr-defined]  # documented, but not in __all__

from autocl.config import to_dict
from autocl.data import load
from autocl.data.eval_streams import split_stream
from autocl.data.sampler import StreamSampler
from autocl.errors import StateError, TrainingError
from autocl.files import write_json
from autocl.learner import Learner
from autocl.matrix import TransferMatrix
from autocl.objective import ObjectiveConfig, acl_objective
from autocl.passage import run_streams
from autocl.training import checkpoint, parallel
from autocl.training import recipe as recipes
from autocl.training.log import RunLog, loss_terms, status_line
from autocl.training.recipe import Recipe, provenance
from autocl.training.run import InterruptedRunError, Run, prepare, signals
from autocl.training.step import DivergedError, TrainingStep, train_step

BEST = "best.safetensors"
MAY_CHANGE = re.compile(r"(stages\.\d+\.)?optimiser\.(lr|clip)")
"""Fields that may change when a run is resumed: the remedies against divergence."""


def train(
    recipe: Recipe,
    folder: str | Path,
    *,
    resume: bool = False,
    device: str = "auto",
    save_every: float = 120.0,
) -> Path:
    """Meta-train a learner, stage by stage.

    Args:
        recipe: what to do.
        folder: where recipe.json, data.json, log.jsonl, last.safetensors, good.safetensors and
            best.safetensors go; those of earlier stages to stage1, stage2, … in it. To resume a run of
            several machines, all of them must see it.
        resume: continue the run in that folder; one that was killed before its first checkpoint starts anew.
            optimiser.lr and optimiser.clip may differ from those it was started with.
        device: "auto", "cpu" or "cuda".
        save_every: seconds between checkpoints; one is also written at every validation and at the end.

    Returns:
        The file of the best learner by validation.

    Raises:
        TrainingError: when the run cannot start or go on. The last good checkpoint stands.
        InterruptedRunError: after SIGINT, SIGTERM or SIGHUP, when the checkpoint is written.
    """
    folder = Path(folder)
    if recipe.finetune and not (recipe.init_from or recipe.stages):
        raise TrainingError(
            f"recipe {recipe.name} finetunes a learner and was given none: name one with --init-from, from "
            "the zoo or the path of a run"
        )
    changed: dict[str, str] = {}
    if resume:
        changed = recipes.differences(recipe, recipes.read_recipe(folder))
        if other := [f"{n}: {text}" for n, text in changed.items() if not MAY_CHANGE.fullmatch(n)]:
            raise TrainingError(f"{folder} was started with another recipe ({'; '.join(other)})")
    elif any(folder.glob(f"stage*/{checkpoint.FILE_NAME}")) or (folder / checkpoint.FILE_NAME).exists():
        raise TrainingError(f"{folder} holds a run: continue it with --resume, or choose another --out")
    stages = recipe.all_stages
    with parallel.ranks(device) as ranks, checkpoint.locked(folder) if ranks.is_main else nullcontext():
        start: Path | None = None
        for number, stage in enumerate(stages, 1):
            place = folder if number == len(stages) else folder / f"stage{number}"
            if not (resume and _finished(place)):
                run = prepare(stage, place, ranks, resume=resume, start=start)
                if ranks.is_main:
                    _begin(run, {place: stage, folder: recipe}, resume=resume)
                _train_stage(run, changed, save_every=save_every)
            start = place / BEST
    return folder / BEST


def _finished(folder: Path) -> bool:
    there = (folder / checkpoint.FILE_NAME).exists()
    return there and checkpoint.read_progress(folder).finished


def _begin(run: Run, records: dict[Path, Recipe], *, resume: bool) -> None:
    """Check what can be checked before the first step, then write down what the run is."""
    size = sum(p.numel() * p.element_size() for p in run.learner.parameters())
    # Weights and Adam's two moments: two checkpoints, and one that is being written.
    checkpoint.check_space(run.folder, 3 * 3 * size)
    checkpoint.check_data(run.folder, [*run.train.sets, *run.val.sets], resume=resume)
    for place, recipe in records.items():
        write_json(place / recipes.FILE_NAME, to_dict(recipe))


def _train_stage(run: Run, changed: dict[str, str], *, save_every: float) -> None:
    recipe, folder, ranks = run.recipe, run.folder, run.ranks
    at, place = run.progress, folder if ranks.is_main else None
    with RunLog(place, total=recipe.steps, at=at.step, length=at.log_bytes) as log, signals() as received:
        if changed:
            log.record(at.step, {"resumed with": changed})
        try:
            _loop(run, log, received, save_every)
        except DivergedError as error:
            step = checkpoint.go_back(folder) if ranks.is_main else None
            where = (
                "no good checkpoint was written yet" if step is None else f"the run is back at step {step}"
            )
            raise TrainingError(
                f"{error} at step {run.progress.step} (seed {recipe.seed}); {where}. Continue with --resume "
                f"and a lower --optimiser.lr (now {recipe.optimiser.lr}), or with --optimiser.clip 1"
            ) from error
        except RuntimeError as error:
            if ranks.world == 1:
                raise
            if run.carried is None:  # carried states are gone with the other rank: the last save stands then
                _save(run, log)
            raise TrainingError(
                f"rank {ranks.rank} of {ranks.world} cannot go on at step {run.progress.step}, most "
                f"likely because another one died: {error}. Continue with --resume"
            ) from error


def _loop(run: Run, log: RunLog, received: list[int], save_every: float) -> None:
    recipe, progress, ranks = run.recipe, run.progress, run.ranks
    # Streams that start from a carried state leave the meta-learned initial state out.
    module = ranks.wrap(TrainingStep(run.learner, recipe), some_unused=recipe.carry_state > 0)
    # A long run need not log each of its hundred thousands of steps.
    log_stride = max(1, recipe.steps // 20_000)
    if progress.step == 0 and progress.validated < 0:
        _save(run, log, score=_validate(run, log))
    saved = began = time.monotonic()
    while progress.step < recipe.steps:
        step = progress.step
        result = train_step(run, module, step)
        progress.step = step + 1
        now = time.monotonic()
        progress.seconds += now - began
        began = now
        if step % log_stride == 0 or progress.step == recipe.steps:
            terms = loss_terms(result.outcome, [s.title for s in recipe.sources])
            known = {"loss": result.loss, "gradient": result.gradient, "rate": result.rate}
            log.record(step, {**known, "seconds": progress.seconds, **terms})
        speed = progress.step * recipe.batch_size / max(progress.seconds, 1e-9)
        log.show(progress.step, status_line(result.loss, result.outcome, speed))
        score = None
        if progress.step % recipe.validation.every == 0 or progress.step == recipe.steps:
            score = _validate(run, log)
        stop, due = ranks.agree(received[0] if received else 0, int(now - saved > save_every))
        if score is not None or stop or due:
            _save(run, log, score=score)
            saved = began = time.monotonic()
        if stop:
            raise InterruptedRunError(stop, run.folder)
    progress.finished = True
    _save(run, log)


def _validate(run: Run, log: RunLog) -> float:
    """Score the learner on the first rank and keep it if it is the best so far; the score (elsewhere 0)."""
    score = _score(run, log) if run.ranks.is_main else 0.0
    run.progress.validated = run.progress.step
    return score


def _score(run: Run, log: RunLog) -> float:
    how, rule, progress = run.recipe.validation, run.recipe.rule, run.progress
    run.learner.eval()
    try:
        if how.split:
            matrices = validate_split(run.learner, how.split, run.recipe)
        else:
            one_order = rule == "paper"
            matrices = validate_streams(run.learner, run.val, how.batches, one_order=one_order)
    except (LinAlgError, StateError) as error:  # a system that lost its rank, a state that is not finite
        raise DivergedError(str(error)) from error
    run.learner.train()
    value = sum(score(m, rule) for m in matrices) / len(matrices)
    if value > progress.best_score:
        progress.best_score, progress.best_step = value, progress.step
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
    return value


def _save(run: Run, log: RunLog, *, score: float | None = None) -> None:
    carried = None if run.carried is None else run.ranks.gather(run.carried)
    if run.ranks.is_main:
        run.progress.log_bytes = log.length
        checkpoint.save(run.folder, run.learner, run.optimiser, run.progress, carried, score=score)


SPLIT_RUNS = 5
"""Sets of demos of a Split-X validation stream, as in the authors' selection."""


def score(matrix: TransferMatrix, rule: str) -> float:
    """One number from a matrix of accuracies, by the recipe's rule."""
    return float(matrix.average() if rule == "average" else matrix.learning_accuracy())


@torch.no_grad()
def validate_streams(
    learner: Learner, sampler: StreamSampler, batches: int, *, one_order: bool = False
) -> list[TransferMatrix]:
    """Accuracies of the same validation streams every time, one matrix for each batch.

    Args:
        learner: in evaluation mode.
        sampler: of validation streams.
        batches: how many.
        one_order: only streams in which the image sets come in the sampler's order, as the authors validate;
            else all orders take their turn.
    """
    device = learner.device
    # Orders alternate or rotate with the step: a stride of one round meets the first order only.
    stride = len(sampler.sets) if one_order else 1
    matrices = []
    for step in range(0, batches * stride, stride):
        batch = sampler.batch(step).to(device)
        c = learner.config
        images = sampler.images(batch, channels=c.channels, standardise=c.standardise).to(device)
        outcome = acl_objective(learner, learner.encode(images), batch, ObjectiveConfig())
        matrices.append(outcome.accuracies)
    return matrices


@torch.no_grad()
def validate_split(learner: Learner, name: str, recipe: Recipe) -> list[TransferMatrix]:
    """Accuracies on Split-X over the validation part of X's training set, a matrix for each set of demos."""
    size = learner.config.height
    train, test = load(name, "train", size=size), load(name, "test", size=size)
    scenario = recipe.streams.scenario
    shots = getattr(recipe.streams, "shots", 15)
    streams = [
        split_stream(train, test, scenario=scenario, shots=shots, run=run, part="validation")
        for run in range(SPLIT_RUNS)
    ]
    matrix = run_streams(learner, streams).matrix
    return [TransferMatrix(values) for values in matrix.values]
