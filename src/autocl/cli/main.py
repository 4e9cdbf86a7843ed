"""The entry point: a table of contents; each command has a file of its own in this package."""

import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module

from autocl import __version__
from autocl.errors import AutoclError
from autocl.threads import configure_threads

COMMANDS = {
    "demo": "autocl.cli.demo:main",
    "train": "autocl.cli.train:main",
    "eval": "autocl.cli.bench:eval_main",
    "bench": "autocl.cli.bench:bench_main",
    "zoo": "autocl.cli.zoo:main",
    "data": "autocl.cli.data:main",
}
"""Where the function of each command is; it takes the arguments behind the command."""

HELP = f"""autocl {__version__}: continual learning that is learned, not hand-crafted

usage: autocl COMMAND [options]       autocl COMMAND --help says more, with examples

  demo        digits learned two at a time, beside Adam, EWC and nearest mean; makes a page
  train       meta-train a continual learner from a recipe; resume, scale out
  eval        take a learner through tasks made of your own folders of images
  bench       every table and figure of the paper, its numbers beside ours
  zoo         the learners that ship with the package, and their model cards
  data        list, get, check and show image sets

  --debug     show the traceback of an error       --version     print the version
"""


def main(args: Sequence[str] | None = None) -> None:
    """Entry point of `autocl`."""
    configure_threads()
    argv = list(sys.argv[1:] if args is None else args)
    debug = "--debug" in argv
    argv = [a for a in argv if a != "--debug"]
    if not argv or argv[0] in ("-h", "--help"):
        print(HELP)
        return
    if argv[0] == "--version":
        print(__version__)
        return
    try:
        _command(argv[0])(argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has seen enough, as in `autocl zoo everyday | head`. Python flushes once more when it
        # ends and would complain: let that go nowhere. 141 is what a shell calls an end by SIGPIPE.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except AutoclError as error:
        if debug:
            raise
        sys.exit(_failed(str(error), 2))
    except KeyboardInterrupt:
        sys.exit(_failed("interrupted", 130))


def _command(name: str) -> Callable[[Sequence[str]], None]:
    """The function behind a command, imported only when it is asked for."""
    if name not in COMMANDS:
        raise AutoclError(f"there is no command {name!r}; autocl --help lists them")
    module, function = COMMANDS[name].split(":")
    run: Callable[[Sequence[str]], None] = getattr(import_module(module), function)
    return run


def _failed(message: str, status: int) -> int:
    print(f"autocl: {message}", file=sys.stderr)
    return status
