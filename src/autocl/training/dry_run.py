"""`autocl train RECIPE --dry-run`: what a run would do and cost, found out by a few real steps."""

import json
import resource
import sys
import time
from pathlib import Path

import torch
from rich.console import Console

from autocl.config import to_dict
from autocl.training import parallel
from autocl.training.loss import TrainingStep
from autocl.training.recipe import Recipe
from autocl.training.run import prepare
from autocl.training.trainer import train_step

STEPS = 3


def dry_run(recipe: Recipe, device: str) -> None:
    """Print the resolved recipe and what a few real steps of each stage cost; nothing is written."""
    with parallel.ranks(device) as ranks:
        lines = [_stage(stage, ranks) for stage in recipe.all_stages]
        if recipe.stages:
            named = zip(recipe.all_stages, lines, strict=True)
            lines = [f"stage {number}, {stage.name}\n{text}" for number, (stage, text) in enumerate(named, 1)]
        # One voice is enough; the others only take part in the steps.
        if not ranks.first:
            return
        console = Console()
        console.print_json(json.dumps(to_dict(recipe)))
        console.print("\n\n".join(lines), highlight=False)


def _stage(recipe: Recipe, ranks: parallel.Ranks) -> str:
    run = prepare(recipe, Path(), ranks)
    module = ranks.wrap(TrainingStep(run.learner, recipe), some_unused=recipe.carry_state > 0)
    train_step(run, module, 0)  # compiles kernels, reads data: not part of the estimate
    started = time.perf_counter()
    for number in range(1, STEPS + 1):
        train_step(run, module, number)
    seconds = (time.perf_counter() - started) / STEPS
    unit = 1024 if sys.platform == "darwin" else 1  # of ru_maxrss, in which Linux counts kilobytes
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit / 1024
    weights = sum(p.numel() for p in run.learner.parameters())
    return (
        f"learner: {weights:,} parameters, {run.learner.initial_state().nbytes / 1024:.0f} KB of state\n"
        f"streams: {recipe.batch_size} a step, {len(run.train.batch(0).pool)} images to encode for them\n"
        f"time: {seconds:.2f} s a step with {torch.get_num_threads()} threads on {ranks.device}, "
        f"{seconds * recipe.steps / 60:.0f} minutes for {recipe.steps} steps, without validation\n"
        f"memory: {peak:.0f} MB at the peak of these steps"
    )
