"""`autocl train RECIPE --dry-run`: what a run would do and cost, found out by a few real steps."""

import json
import resource
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from autocl.training import parallel
from autocl.training.recipe import Recipe, recipe_to_dict
from autocl.training.rival_recipe import RivalRecipe
from autocl.training.rivals import prepare_rival, rival_step
from autocl.training.run import prepare
from autocl.training.step import TrainingStep
from autocl.training.trainer import train_step

STEPS = 3


def dry_run(recipe: Recipe, device: str) -> None:
    """Print the resolved recipe of a learner and what a few real steps cost; nothing is written."""
    with parallel.ranks(device) as ranks:
        run = prepare(replace(recipe, compile_encoder=False), Path(), ranks)
        module = ranks.wrap(TrainingStep(run.learner, recipe), some_unused=recipe.carry_state > 0)
        seconds = _seconds_a_step(lambda step: train_step(run, module, step))
        state = f"{run.learner.initial_state().nbytes / 1024:.0f} KB of state"
        # One voice is enough; the others only take part in the steps.
        if ranks.first:
            _show(
                recipe_to_dict(recipe), f"learner: {_weights(run.learner)} parameters, {state}",
                images=len(run.train.batch(0).pool), seconds=seconds, device=ranks.device,
            )  # fmt: skip


def dry_run_rival(recipe: RivalRecipe) -> None:
    """Print the resolved recipe of a rival and what a few real steps cost; nothing is written."""
    run = prepare_rival(recipe, Path())
    seconds = _seconds_a_step(lambda step: rival_step(run, step))
    _show(
        asdict(recipe), f"rival: {_weights(run.rival)} parameters",
        images=len(run.train.batch(0).pool), seconds=seconds, device=torch.device("cpu"),
    )  # fmt: skip


def _seconds_a_step(step: Callable[[int], object]) -> float:
    step(0)  # compiles kernels, reads data: not part of the estimate
    started = time.perf_counter()
    for number in range(1, STEPS + 1):
        step(number)
    return (time.perf_counter() - started) / STEPS


def _weights(module: torch.nn.Module) -> str:
    return f"{sum(p.numel() for p in module.parameters()):,}"


def _show(recipe: Mapping[str, Any], what: str, *, images: int, seconds: float, device: torch.device) -> None:
    unit = 1024 if sys.platform == "darwin" else 1  # of ru_maxrss, in which Linux counts kilobytes
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit / 1024
    console = Console()
    console.print_json(json.dumps(recipe))
    console.print(
        f"{what}\n"
        f"streams: {recipe['batch_size']} a step, {images} images to encode for them\n"
        f"time: {seconds:.2f} s a step with {torch.get_num_threads()} threads on {device}, "
        f"{seconds * recipe['steps'] / 60:.0f} minutes for {recipe['steps']} steps, without validation\n"
        f"memory: {peak:.0f} MB at the peak of these steps",
        highlight=False,
    )
