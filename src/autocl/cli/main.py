"""The entry point: a table of contents. Each command is a typed function in a file of its own."""

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from autocl import __version__
from autocl.errors import AutoclError
from autocl.names import resolve


@dataclass(frozen=True)
class Command:
    """A line of the table."""

    where: str
    """`file:function` in this package; its signature is the command's, its docstring the help."""
    help: str
    parse: str = ""
    """A function of the same module that takes the arguments itself, where a signature does not say all."""


COMMANDS = {
    "tour": Command("tour:tour", "classes learned two at a time, beside simple rivals; makes a page"),
    "play": Command("play:play", "teach it in the browser, watch it remember; the same server is an API"),
    "learn": Command("learn:learn", "learn your images, now or as they arrive, into one small file"),
    "predict": Command("predict:predict", "what such a file says of other images: table, CSV, JSON"),
    "eval": Command("eval:evaluate", "measure a learner on tasks made of your own folders of images"),
    "train": Command("train:train", "meta-train a learner from a recipe; resume, scale out", "parse"),
    "bench": Command("bench:bench", "every table and figure of the paper, its numbers beside ours"),
    "zoo": Command("zoo:zoo", "the learners that ship, their model cards; verify measures again", "parse"),
    "features": Command("features:features", "what a frozen network makes of your images, computed once"),
    "data": Command("data:data", "list, get, check and show image sets"),
}
"""Nothing of a command is imported before it is called: help and version cost no torch."""

HELP = """autocl {version}: continual learning that is learned, not hand-crafted

usage: autocl COMMAND [options]       autocl COMMAND --help says more, with examples

{commands}

  --debug     show the traceback of an error
  --version   print the version
  --tyro-print-completion bash|zsh    a script that completes commands and options. For bash, once:
              autocl --tyro-print-completion bash > ~/.local/share/bash-completion/completions/autocl
"""


def main(args: Sequence[str] | None = None) -> None:
    """Entry point of `autocl`."""
    configure_threads()
    argv = list(sys.argv[1:] if args is None else args)
    debug = "--debug" in argv
    argv = [a for a in argv if a != "--debug"]
    if not argv or argv[0] in ("-h", "--help"):
        lines = (f"  {name:<12}{command.help}" for name, command in COMMANDS.items())
        print(HELP.format(version=__version__, commands="\n".join(lines)))
        return
    if argv[0] == "--version":
        print(__version__)
        return
    try:
        if argv[0].startswith("--tyro-"):
            _complete(argv)
        else:
            run_command(argv[0], argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has seen enough, as in `autocl zoo everyday | head`. Python flushes once more when it
        # ends and would complain: let that go nowhere. 141 is what a shell calls an end by SIGPIPE.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except AutoclError as error:
        if debug:
            raise
        sys.exit(_failed(" ".join(str(error).splitlines()), 2))
    except KeyboardInterrupt:
        sys.exit(_failed("interrupted", 130))


def run_command(name: str, args: list[str]) -> None:
    """Run a command, imported only now; its errors are raised."""
    name = resolve(name, COMMANDS, "command", hint="; autocl --help says more")
    command = COMMANDS[name]
    function = _function(command)
    if command.parse:
        getattr(import_module(function.__module__), command.parse)(args)
        return
    from autocl.cli.terminal import run

    run(function, args, f"autocl {name}")


def _complete(args: Sequence[str]) -> None:
    """Let tyro write the completion script of all commands together."""
    import tyro

    from autocl.cli.terminal import CONFIG

    functions = {name: _function(command) for name, command in COMMANDS.items()}
    tyro.extras.subcommand_cli_from_dict(functions, prog="autocl", args=args, config=CONFIG)


def _function(command: Command) -> Callable[..., Any]:
    module, name = command.where.split(":")
    function: Callable[..., Any] = getattr(import_module(f"autocl.cli.{module}"), name)
    return function


def _failed(message: str, status: int) -> int:
    print(f"autocl: {message}", file=sys.stderr)
    return status


QUOTA = Path("/sys/fs/cgroup/cpu.max")
"""File in which Linux states a container's share of the processors: quota and period, or "max"."""


def configure_threads() -> None:
    """Let torch's threads sleep while they wait, and have no more of them than this process may use cores.

    OpenMP's threads spin while they wait. On a machine that does anything else they spin against the other
    load: a training step took nine times as long (`docs/use.md`). Sleeping costs microseconds. It must be
    said before torch is imported. Values that the user has set are kept; child processes inherit them.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("KMP_BLOCKTIME", "0")  # the same for Intel's OpenMP
    os.environ.setdefault("OMP_NUM_THREADS", str(usable_cores()))


def usable_cores(quota: Path = QUOTA) -> int:
    """Cores that this process may use: those it is bound to, and no more than its container's share.

    Args:
        quota: the file with the container's share.
    """
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        allowed, period = quota.read_text(encoding="ascii").split()
        share = bound if allowed == "max" else int(allowed) // int(period)
    except (OSError, ValueError, ZeroDivisionError):
        share = bound
    return max(1, min(bound, share))
