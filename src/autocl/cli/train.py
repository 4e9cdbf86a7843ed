"""`autocl train`: from the command line to a run, or to what one would cost (--dry-run)."""

import hashlib
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import count
from pathlib import Path
from typing import Annotated

import torch
import tyro
from rich.console import Console
from tyro.conf import Positional, arg

from autocl.cli.terminal import Left, run
from autocl.config import to_dict
from autocl.data.catalog import CATALOG
from autocl.data.stream_config import StreamConfig
from autocl.errors import InputError
from autocl.recipes import RECIPES, get_recipe
from autocl.training import parallel
from autocl.training.recipe import Recipe, read_recipe
from autocl.training.run import HELD_OUT_PART, InterruptedRunError, prepare
from autocl.training.step import TrainingStep, train_step
from autocl.training.trainer import train as train_learner


def train(
    recipe: Annotated[Positional[str | None], arg(metavar="[RECIPE]", help_behavior_hint="")] = None,
    /,
    *,
    resume: Left[Path] = None,
    out: Left[Path] = None,
    device: str = "auto",
    dry_run: bool = False,
    from_nothing: bool = False,
) -> None:
    """Meta-train a continual learner. Ctrl-C saves and stops.

    OUT/best.safetensors is the best by validation, OUT/log.jsonl the log.

    Args:
        recipe: a name from the list below. Any field of it is an option: autocl train RECIPE --help.
        resume: go on with the run in this folder, bit for bit, with the recipe it was started with; after
            a divergence with a lower --optimiser.lr.
        out: folder of the run. Default: runs/RECIPE-seedN, and behind it a short hash of the fields that
            you changed, so that other options are another run.
        device: auto, cpu or cuda.
        dry_run: show the resolved recipe, its size, memory and time; write nothing.
        from_nothing: where the recipe starts from a shipped learner, make that one first, as stages.

    Examples:
        autocl train quick                                    drawn glyphs, no download, minutes on two cores
        autocl train quick --objective.no-acl                 without the backward terms: watch it forget
        autocl train fast_split_class --sources.0.name my_images --learner.channels 3     one folder per class
        autocl train two-task                                 both stages of a learner that ships
        autocl train three-task --from-nothing                and that of the learner it starts from
        autocl train --resume runs/quick-seed1
        torchrun --nproc-per-node 4 -m autocl train paper_two_task --out runs/two
    """
    if resume is None:
        raise InputError(
            "name a recipe before its options, or --resume FOLDER; autocl train --help lists all"
        )
    flags = (("--dry-run", dry_run), ("--from-nothing", from_nothing))
    also = [*(["--out", str(out)] if out else []), *(flag for flag, given in flags if given)]
    _resume(resume, ["--device", device, *also])


@dataclass(frozen=True, kw_only=True)
class Order:
    """Meta-train with this recipe. Every field of it is an option; the defaults are the recipe's."""

    recipe: Annotated[Recipe, arg(name="")]
    out: Left[Path] = None
    """Folder of the run. Default: runs/RECIPE-seedN, and behind it a short hash of the changed fields."""
    device: str = "auto"
    """auto, cpu or cuda."""
    dry_run: bool = False
    """Show the resolved recipe, its size, memory and time; write nothing."""
    from_nothing: bool = False
    """Where the recipe starts from a shipped learner: make that one first, by its own recipe, as stages."""


def parse(args: list[str]) -> None:
    """Run `autocl train` with these arguments; a run stopped by a signal ends with 128 + its number."""
    try:
        if args and not args[0].startswith("-"):
            _start(args[0], args[1:])
            return
        if args[:1] == ["--resume"] and len(args) > 1:
            _resume(Path(args[1]), args[2:])
            return
        run(train, args or ["--help"], "autocl train")
        if not args or args[0] in ("-h", "--help"):
            _print_recipes()
    except InterruptedRunError as stop:
        print(f"autocl: {stop}", file=sys.stderr)
        sys.exit(128 + stop.signum)


def _start(name: str, args: Sequence[str]) -> None:
    """Start a run of a recipe, or rehearse it."""
    recipe = get_recipe(name)
    chosen = read_order(recipe, args)
    whole = with_beginnings(chosen.recipe) if chosen.from_nothing else chosen.recipe
    check_folders(whole)
    if chosen.dry_run:
        print_cost(whole, chosen.device)
        return
    folder = chosen.out or default_folder(chosen.recipe, recipe)
    _say_best(train_learner(whole, folder, device=chosen.device))


def _resume(folder: Path, args: Sequence[str]) -> None:
    """Go on with a run; the trainer says which fields may be changed on the way."""
    order = read_order(read_recipe(folder), args)
    if order.out is not None or order.dry_run or order.from_nothing:
        raise InputError(
            f"--resume goes on in {folder} itself: leave --out, --dry-run and --from-nothing out"
        )
    _say_best(train_learner(order.recipe, folder, resume=True, device=order.device))


def check_folders(recipe: Recipe) -> None:
    """Refuse a folder of one's own with too few classes, and say what to do instead.

    Raises:
        InputError: the streams of the recipe need more.
    """
    streams = recipe.streams
    asked = streams.classes_per_set(len(recipe.sources)) if isinstance(streams, StreamConfig) else 1
    trained = max(streams.pool_classes if streams.drawing == "pooled" else 0, asked)
    for source in recipe.sources:
        folder = Path(source.name)
        if source.name in CATALOG or not folder.is_dir():
            continue
        found = sum(place.is_dir() and not place.name.startswith(".") for place in folder.iterdir())

        def enough(n: int) -> bool:
            held_out = max(1, n // HELD_OUT_PART)
            return held_out >= asked and n - held_out >= trained

        if not enough(found):
            raise InputError(
                f"{folder} has {found} classes, and {recipe.name} takes {next(filter(enough, count()))}: "
                f"{trained} to draw tasks from, and a fifth of all to validate with. To learn {found} "
                f"classes nothing needs to be trained: autocl eval everyday --data {folder}"
            )


def read_order(recipe: Recipe, args: Sequence[str]) -> Order:
    """The recipe with some fields set on the command line, and what to do with it.

    Example:
        >>> order = read_order(get_recipe("quick"), ["--streams.shots", "3", "--out", "here"])
        >>> order.recipe.streams.shots, order.out
        (3, PosixPath('here'))
    """
    return tyro.cli(
        Order,
        default=Order(recipe=recipe),
        args=list(args),
        prog=f"autocl train {recipe.name}",
        config=(tyro.conf.AvoidSubcommands,),
    )


def with_beginnings(recipe: Recipe) -> Recipe:
    """The recipe with that of the shipped learner it starts from as its first stages.

    Raises:
        InputError: it starts from a file or a learner that no recipe makes.

    Example:
        >>> [stage.name for stage in with_beginnings(get_recipe("three-task")).all_stages]
        ['fast_two_task', 'two-task', 'three-task']
    """
    if not recipe.init_from:
        return recipe
    if recipe.init_from not in RECIPES:
        raise InputError(
            f"--from-nothing: no recipe makes {recipe.init_from}, from which {recipe.name} starts"
        )
    start = with_beginnings(get_recipe(recipe.init_from))
    return replace(recipe, init_from="", stages=(*start.stages, replace(start, stages=())))


def default_folder(recipe: Recipe, named: Recipe) -> Path:
    """Folder of a run: named after its recipe and seed, and a hash of all else that was changed.

    The same order has the same folder, in every process of a run.

    Example:
        >>> quick = get_recipe("quick")
        >>> default_folder(replace(quick, seed=3), quick)
        PosixPath('runs/quick-seed3')
        >>> default_folder(replace(quick, steps=9), quick)  # doctest: +SKIP
        PosixPath('runs/quick-seed1-c486a5')
    """
    folder = Path("runs") / f"{recipe.name}-seed{recipe.seed}"
    before = asdict(replace(named, seed=recipe.seed))
    changed = {name: value for name, value in asdict(recipe).items() if value != before[name]}
    if not changed:
        return folder
    digest = hashlib.sha256(json.dumps(changed, sort_keys=True, default=str).encode()).hexdigest()
    return folder.with_name(f"{folder.name}-{digest[:6]}")


def _print_recipes() -> None:
    width = max(map(len, RECIPES)) + 2
    lines = [f"  {n:<{width}}{(f.__doc__ or '').splitlines()[0]}" for n, f in RECIPES.items()]
    print("\nrecipes:", *lines, sep="\n")


def _say_best(file: Path) -> None:
    print(f"the best learner by validation is {file}", file=sys.stderr)


STEPS = 3


def print_cost(recipe: Recipe, device: str) -> None:
    """Print the resolved recipe and what a few real steps of each stage cost; nothing is written."""
    with parallel.ranks(device) as ranks:
        lines = [_stage(stage, ranks) for stage in recipe.all_stages]
        if recipe.stages:
            named = zip(recipe.all_stages, lines, strict=True)
            lines = [f"stage {number}, {stage.name}\n{text}" for number, (stage, text) in enumerate(named, 1)]
        # One voice is enough; the others only take part in the steps.
        if not ranks.is_main:
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
    weights = sum(p.numel() for p in run.learner.parameters())
    return (
        f"learner: {weights:,} parameters, {run.learner.initial_state().nbytes / 1024:.0f} KB of state\n"
        f"streams: {recipe.batch_size} a step, {len(run.train.batch(0).pool)} images to encode for them\n"
        f"time: {seconds:.2f} s a step with {torch.get_num_threads()} threads on {ranks.device}, "
        f"{seconds * recipe.steps / 60:.0f} minutes for {recipe.steps} steps, without validation\n"
        f"memory: {_peak_memory()} at the peak of these steps"
    )


def _peak_memory() -> str:
    try:
        import resource
    except ImportError:
        return "not known on this system"
    unit = 1024 if sys.platform == "darwin" else 1  # Linux counts kilobytes
    return f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit / 1024:.0f} MB"
