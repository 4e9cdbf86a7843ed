"""`autocl train`: from the command line to a run."""

import json
import resource
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch
import tyro
from rich.console import Console

from autocl.errors import InputError
from autocl.recipes import RECIPES, get_recipe
from autocl.recipes.rivals import RIVALS
from autocl.training import parallel
from autocl.training.interrupt import InterruptedRunError
from autocl.training.recipe import Recipe, read_recipe, recipe_to_dict
from autocl.training.rival_recipe import RivalRecipe, read_rival_recipe
from autocl.training.rivals import train_rival
from autocl.training.run import prepare
from autocl.training.step import TrainingStep
from autocl.training.trainer import train, train_step

HELP = """usage: autocl train RECIPE [--out DIR] [--device cpu|cuda] [--dry-run] [any field of the recipe]
       autocl train --resume DIR

Meta-train a continual learner or a rival. DIR/best.safetensors is the best by validation, DIR/log.jsonl the
log. Ctrl-C saves and stops; --resume continues bit for bit.

recipes:
{recipes}
rivals, to compare with:
{rivals}

examples:
  autocl train quick                                    drawn glyphs, no download, minutes on two cores
  autocl train quick --objective.no-acl                 the same without the backward terms: watch it forget
  autocl train fast_split_class --steps 2000 --seed 3   any field can be set; RECIPE --help lists them
  autocl train paper_split_domain --init-from runs/two/best.safetensors
  autocl train fast_split_class --sources.0.name my_images --learner.channels 3     one folder per class
  autocl train fast_two_task --dry-run                  the resolved recipe, size, memory and time
  autocl train gemcl --out rivals/gemcl                 for autocl bench TABLE --method gemcl --rivals rivals
  torchrun --nproc-per-node 4 -m autocl train paper_two_task --out runs/two        four GPUs of one machine
  torchrun --nnodes 2 --nproc-per-node 4 --rdzv-backend c10d --rdzv-endpoint HOST:29500 -m autocl train …
"""


def help_text() -> str:
    """What `autocl train --help` prints."""
    width = max(map(len, RECIPES)) + 2

    def listed(functions: Mapping[str, Callable[[], object]]) -> str:
        return "\n".join(f"  {n:<{width}}{(f.__doc__ or '').splitlines()[0]}" for n, f in functions.items())

    return HELP.format(recipes=listed(RECIPES), rivals=listed(RIVALS))


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
        folder, rest = Path(args[1]), list(args[2:])
        device = _flag(rest, "--device") or "auto"
        if rest:
            raise InputError(
                f"--resume continues {folder} with its own recipe and takes only --device, not {rest[0]!r}; "
                "to change something start a new run with --init-from"
            )
        if rival := read_rival_recipe(folder):
            _say_best("rival", train_rival(rival, folder, resume=True))
        else:
            _say_best("learner", train(read_recipe(folder), folder, resume=True, device=device))
        return
    name, rest = args[0], list(args[1:])
    if name in RIVALS:
        _train_rival(name, rest)
        return
    out, device = _flag(rest, "--out"), _flag(rest, "--device") or "auto"
    dry = "--dry-run" in rest
    if dry:
        rest.remove("--dry-run")
    recipe = override(get_recipe(name), rest)
    if dry:
        dry_run(recipe, device)
        return
    _say_best("learner", train(recipe, out or f"runs/{recipe.name}-seed{recipe.seed}", device=device))


def _train_rival(name: str, args: list[str]) -> None:
    out = _flag(args, "--out")
    prog = f"autocl train {name}"
    config = (tyro.conf.AvoidSubcommands,)
    recipe = tyro.cli(RivalRecipe, default=RIVALS[name](), args=args, prog=prog, config=config)
    _say_best("rival", train_rival(recipe, out or f"runs/{name}-seed{recipe.seed}"))


def _say_best(what: str, file: Path) -> None:
    print(f"the best {what} by validation is {file}", file=sys.stderr)


def override(recipe: Recipe, args: Sequence[str]) -> Recipe:
    """The recipe with some fields set on the command line.

    Example:
        >>> override(get_recipe("quick"), ["--streams.shots", "3", "--objective.no-acl"]).streams.shots
        3
    """
    prog = f"autocl train {recipe.name}"
    return tyro.cli(Recipe, default=recipe, args=args, prog=prog, config=(tyro.conf.AvoidSubcommands,))


def dry_run(recipe: Recipe, device: str, *, steps: int = 3) -> None:
    """Print the resolved recipe and what a few real steps cost; nothing is written."""
    with parallel.ranks(device) as ranks:
        # One voice is enough; the others only take part in the steps.
        console = Console(quiet=not ranks.first)
        console.print_json(json.dumps(recipe_to_dict(recipe)))
        run = prepare(replace(recipe, compile_encoder=False), Path(), ranks)
        module = ranks.wrap(TrainingStep(run.learner, recipe), some_unused=recipe.carry_state > 0)
        train_step(run, module, 0)  # compiles kernels, reads data: not part of the estimate
        started = time.perf_counter()
        for step in range(1, steps + 1):
            train_step(run, module, step)
        seconds = (time.perf_counter() - started) / steps
    weights = sum(p.numel() for p in run.learner.parameters())
    unit = 1024 if sys.platform == "darwin" else 1  # of ru_maxrss, in which Linux counts kilobytes
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit / 1024
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
