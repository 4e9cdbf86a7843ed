"""`autocl train`: from the command line to a run."""

import json
import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
import tyro
from rich.console import Console

from autocl.errors import FileError, InputError
from autocl.recipes import RECIPES, get_recipe
from autocl.training import parallel
from autocl.training.recipe import Recipe, recipe_from_dict, recipe_to_dict
from autocl.training.step import TrainingStep
from autocl.training.trainer import InterruptedRunError, prepare, train, train_step

HELP = """usage: autocl train RECIPE [--out DIR] [--device cpu|cuda] [--dry-run] [any field of the recipe]
       autocl train --resume DIR

Meta-train a continual learner. DIR/best.safetensors is the best by validation, DIR/log.jsonl the log.
Ctrl-C saves and stops; --resume continues bit for bit.

recipes:
{recipes}

examples:
  autocl train quick                                    drawn glyphs, no download, minutes on two cores
  autocl train quick --objective.no-acl                 the same without the backward terms: watch it forget
  autocl train fast_split_class --steps 2000 --seed 3   any field can be set; RECIPE --help lists them
  autocl train paper_split_domain --init-from runs/two/best.safetensors
  autocl train fast_two_task --dry-run                  the resolved recipe, size, memory and time
  torchrun --nproc-per-node 4 -m autocl train paper_two_task --out runs/two        four GPUs of one machine
  torchrun --nnodes 2 --nproc-per-node 4 --rdzv-backend c10d --rdzv-endpoint HOST:29500 -m autocl train …
"""


def help_text() -> str:
    """What `autocl train --help` prints."""
    width = max(map(len, RECIPES)) + 2
    lines = [f"  {name:<{width}}{(f.__doc__ or '').splitlines()[0]}" for name, f in RECIPES.items()]
    return HELP.format(recipes="\n".join(lines))


def main(args: Sequence[str]) -> None:
    """Run `autocl train` with these arguments; a run stopped by a signal ends with 128 + its number."""
    try:
        _main(args)
    except InterruptedRunError as stop:
        print(f"autocl: {stop}", file=sys.stderr)
        sys.exit(128 + stop.signum)


def _main(args: Sequence[str]) -> None:
    if not args or args[0] in ("-h", "--help"):
        print(help_text())
        return
    if args[0] == "--resume":
        if len(args) < 2:
            raise InputError("--resume needs the folder of a run, e.g. autocl train --resume runs/quick")
        folder = Path(args[1])
        train(read_recipe(folder), folder, resume=True, device=_flag(list(args[2:]), "--device") or "auto")
        return
    name, rest = args[0], list(args[1:])
    out, device = _flag(rest, "--out"), _flag(rest, "--device") or "auto"
    dry = "--dry-run" in rest
    if dry:
        rest.remove("--dry-run")
    recipe = tyro.cli(Recipe, default=get_recipe(name), args=rest, prog=f"autocl train {name}")
    if dry:
        dry_run(recipe, device)
        return
    best = train(recipe, out or f"runs/{recipe.name}-seed{recipe.seed}", device=device)
    print(f"the best learner by validation is {best}", file=sys.stderr)


def read_recipe(folder: Path) -> Recipe:
    """The recipe that a run was started with."""
    path = folder / "recipe.json"
    try:
        return recipe_from_dict(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError as error:
        raise FileError(f"{folder} is not a run: there is no recipe.json in it") from error
    except (KeyError, TypeError, ValueError) as error:
        raise FileError(f"{path}: not a recipe of this version of autocl ({error})") from error


def dry_run(recipe: Recipe, device: str, *, steps: int = 3) -> None:
    """Print the resolved recipe and what a few real steps cost; nothing is written."""
    console = Console()
    console.print_json(json.dumps(recipe_to_dict(recipe)))
    with parallel.ranks(device) as ranks:
        run = prepare(replace(recipe, compile_encoder=False), Path(), ranks)
        module = TrainingStep(run.learner, recipe)
        train_step(run, module, 0)  # compiles kernels, reads data: not part of the estimate
        started = time.perf_counter()
        for step in range(1, steps + 1):
            train_step(run, module, step)
        seconds = (time.perf_counter() - started) / steps
    weights = sum(p.numel() for p in run.learner.parameters())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    console.print(
        f"learner: {weights:,} parameters, {run.learner.initial_state().nbytes / 1024:.0f} KB of state\n"
        f"streams: {recipe.batch_size} a step, {len(run.train.batch(0).pool)} images to encode for them\n"
        f"time: {seconds:.2f} s a step with {torch.get_num_threads()} threads on {ranks.device}, "
        f"{seconds * recipe.steps / 60:.0f} minutes for {recipe.steps} steps, without validation\n"
        f"memory: {peak:.0f} MB at the peak of these steps",
        highlight=False,
    )


def _flag(args: list[str], name: str) -> str | None:
    """Take `name VALUE` out of args."""
    if name not in args:
        return None
    at = args.index(name)
    if at + 1 >= len(args):
        raise InputError(f"{name} needs a value")
    value = args[at + 1]
    del args[at : at + 2]
    return value
