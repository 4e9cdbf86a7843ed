"""`autocl train`: from the command line to a run."""

import sys
from collections.abc import Sequence
from pathlib import Path

import tyro

from autocl.errors import InputError
from autocl.recipes import RECIPES, get_recipe
from autocl.training.dry_run import dry_run
from autocl.training.interrupt import InterruptedRunError
from autocl.training.recipe import Recipe, read_recipe
from autocl.training.trainer import train

HELP = """usage: autocl train RECIPE [--out DIR] [--device cpu|cuda] [--dry-run] [any field of the recipe]
       autocl train --resume DIR [--optimiser.lr RATE] [--optimiser.clip NORM]

Meta-train a continual learner. DIR/best.safetensors is the best by validation, DIR/log.jsonl the log. Ctrl-C
saves and stops; --resume continues bit for bit, after a divergence with a lower rate.

recipes:
{recipes}

examples:
  autocl train quick                                    drawn glyphs, no download, minutes on two cores
  autocl train quick --objective.no-acl                 the same without the backward terms: watch it forget
  autocl train fast_split_class --steps 2000 --seed 3   any field can be set; RECIPE --help lists them
  autocl train paper_split_domain --init-from runs/two/best.safetensors
  autocl train fast_split_class --sources.0.name my_images --learner.channels 3     one folder per class
  autocl train fast_two_task --dry-run                  the resolved recipe, size, memory and time
  autocl train two-task                                 both stages of a learner that ships, from nothing
  autocl train gemcl                                    a meta-learned baseline, trained in the same way
  torchrun --nproc-per-node 4 -m autocl train paper_two_task --out runs/two        four GPUs of one machine
  torchrun --nnodes 2 --nproc-per-node 4 --rdzv-backend c10d --rdzv-endpoint HOST:29500 -m autocl train …
"""


def help_text() -> str:
    """What `autocl train --help` prints."""
    width = max(map(len, RECIPES)) + 2
    lines = [f"  {n:<{width}}{(f.__doc__ or '').splitlines()[0]}" for n, f in RECIPES.items()]
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
        folder, rest = Path(args[1]), list(args[2:])
        device = _flag(rest, "--device") or "auto"
        _say_best(train(override(read_recipe(folder), rest), folder, resume=True, device=device))
        return
    name, rest = args[0], list(args[1:])
    out, device = _flag(rest, "--out"), _flag(rest, "--device") or "auto"
    dry = _switch(rest, "--dry-run")
    recipe = override(get_recipe(name), rest)
    if dry:
        dry_run(recipe, device)
        return
    _say_best(train(recipe, out or f"runs/{recipe.name}-seed{recipe.seed}", device=device))


def _say_best(file: Path) -> None:
    print(f"the best learner by validation is {file}", file=sys.stderr)


def override(recipe: Recipe, args: Sequence[str]) -> Recipe:
    """The recipe with some fields set on the command line.

    Example:
        >>> override(get_recipe("quick"), ["--streams.shots", "3", "--objective.no-acl"]).streams.shots
        3
    """
    prog = f"autocl train {recipe.name}"
    return tyro.cli(Recipe, default=recipe, args=args, prog=prog, config=(tyro.conf.AvoidSubcommands,))


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


def _switch(args: list[str], name: str) -> bool:
    """Take `name` out of args: whether it was there."""
    if there := name in args:
        args.remove(name)
    return there
