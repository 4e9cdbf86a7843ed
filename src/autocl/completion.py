"""`autocl completion`: scripts that let a shell complete commands, their options and what those can be.

The scripts are tables: pressing tab must not start Python and import torch. They are made from the same
dataclasses and functions that tyro makes the command line from, so they hold what `--help` shows.
"""

import inspect
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, Literal, get_args, get_origin, get_type_hints

from autocl import zoo
from autocl.cli import COMMANDS
from autocl.data.catalog import CATALOG
from autocl.data.commands import SUBCOMMANDS
from autocl.demo.commands import Options as DemoOptions
from autocl.errors import InputError
from autocl.evaluation.commands import FIGURES, bench, evaluate
from autocl.evaluation.protocols import PROTOCOLS
from autocl.methods.base import method_names
from autocl.recipes import RECIPES, get_recipe
from autocl.recipes.rivals import RIVALS

HELP = """usage: autocl completion bash|zsh

Print a script that completes autocl's commands and options when tab is pressed.

examples:
  eval "$(autocl completion bash)"                                            in this shell only
  autocl completion bash > ~/.local/share/bash-completion/completions/autocl  in every new one
  autocl completion zsh > ~/.autocl.zsh                                       and in ~/.zshrc, after compinit:
                                                                              source ~/.autocl.zsh
"""

Values = tuple[str, ...] | None
"""What can follow an option: nothing (None), one of these words, or (empty) anything, such as a file."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Somewhere on the command line, behind a command and perhaps a word that follows it."""

    words: tuple[str, ...] = ()
    """What can stand here besides options."""
    options: Mapping[str, Values] = field(default_factory=dict)


def main(args: Sequence[str]) -> None:
    """Run `autocl completion` with these arguments."""
    if not args or any(a in ("-h", "--help") for a in args):
        print(HELP)
    elif len(args) > 1 or args[0] not in _SHELLS:
        raise InputError(f"autocl completion is for {' or '.join(_SHELLS)}, not for {' '.join(args)!r}")
    else:
        print(script(args[0]))


def places() -> dict[str, Place]:
    """What can be typed where; keys are the words that led there, "" is right behind `autocl`."""
    learners, sets = tuple(zoo.names()), tuple(CATALOG)
    known = {"--learner": learners, "--embedding": learners, "--method": ("all", *method_names())}
    out = {
        "": Place(words=tuple(COMMANDS), options={"--debug": None, "--version": None}),
        "demo": Place(options=_of_fields(DemoOptions()) | {"--learner": learners}),
        "train": Place(words=(*RECIPES, *RIVALS), options={"--resume": ()}),
        "eval": Place(words=learners, options=_of_arguments(evaluate)),
        "bench": Place(words=("all", *PROTOCOLS, *FIGURES), options=_of_arguments(bench) | known),
        "zoo": Place(words=learners),
        "data": Place(words=tuple(SUBCOMMANDS)),
        "completion": Place(words=tuple(_SHELLS)),
    }
    run: dict[str, Values] = {"--out": (), "--device": ("cpu", "cuda"), "--dry-run": None}
    for name in RECIPES:
        out[f"train {name}"] = Place(options=run | _of_fields(get_recipe(name)))
    for name, rival in RIVALS.items():
        out[f"train {name}"] = Place(options={"--out": (), "--dry-run": None} | _of_fields(rival()))
    for name, function in SUBCOMMANDS.items():
        named = inspect.signature(function).parameters
        out[f"data {name}"] = Place(words=sets if named else (), options=_of_arguments(function))
    return {at: replace(place, options={**place.options, "--help": None}) for at, place in out.items()}


def _of_fields(config: Any, prefix: str = "") -> dict[str, Values]:
    """Options for the fields of a dataclass and of all that it holds."""
    options: dict[str, Values] = {}
    hints = get_type_hints(type(config))
    for f in fields(config):
        value, name = getattr(config, f.name), f.name.replace("_", "-")
        parts = value if isinstance(value, tuple) else ()
        if is_dataclass(value):
            options |= _of_fields(value, f"{prefix}{name}.")
        elif any(map(is_dataclass, parts)):
            for number, part in enumerate(parts):
                options |= _of_fields(part, f"{prefix}{name}.{number}.")
        else:
            options |= _option(prefix, name, hints[f.name])
    return options


def _of_arguments(function: Callable[..., None]) -> dict[str, Values]:
    """Options for the arguments of a function, without those that are given by position."""
    options: dict[str, Values] = {}
    hints = get_type_hints(function)
    for name, argument in inspect.signature(function).parameters.items():
        if argument.kind is not inspect.Parameter.POSITIONAL_ONLY:
            options |= _option("", name.replace("_", "-"), hints[name])
    return options


def _option(prefix: str, name: str, kind: Any) -> dict[str, Values]:
    if kind is bool:
        return {f"--{prefix}{name}": None, f"--{prefix}no-{name}": None}
    return {f"--{prefix}{name}": _choices(kind)}


def _choices(kind: Any) -> tuple[str, ...]:
    """The words of a Literal, alone or in a union."""
    parts = (kind,) if get_origin(kind) is Literal else get_args(kind)
    words = [word for part in parts if get_origin(part) is Literal for word in get_args(part)]
    return tuple(word for word in words if word)


_LOOK_UP = """
    for word in @BEFORE@; do
        case "$at $word" in
@FOLLOW@
        esac
    done
    case "$at $last" in
@VALUES@
        *) case "$at" in
@OFFERS@
        esac ;;
    esac"""

_SHELLS = {
    # An empty COMPREPLY means file names.
    "bash": """_autocl() {
    local word at= offered= current=${COMP_WORDS[COMP_CWORD]} last=${COMP_WORDS[COMP_CWORD-1]}"""
    + _LOOK_UP.replace("@BEFORE@", '"${COMP_WORDS[@]:1:COMP_CWORD-1}"')
    + """
    COMPREPLY=($(compgen -W "$offered" -- "$current"))
}
complete -o default -F _autocl autocl""",
    "zsh": """_autocl() {
    local word at= offered= last=${words[CURRENT-1]}"""
    + _LOOK_UP.replace("@BEFORE@", '"${(@)words[2,CURRENT-1]}"')
    + """
    [[ -n $offered ]] && compadd -- ${=offered} || _files
}
compdef _autocl autocl""",
}
"""The script of each shell, with gaps for the tables."""


def script(shell: str) -> str:
    """The script for a shell.

    Args:
        shell: "bash" or "zsh".

    Example:
        >>> print(script("bash").splitlines()[0])
        _autocl() {
    """
    known = places()
    follow: dict[str, list[str]] = {}
    values: dict[str, list[str]] = {}
    offers: dict[str, list[str]] = {}
    for at, place in known.items():
        if at:
            follow[at] = [at if " " in at else f" {at}"]
        for option, words in place.options.items():
            if words is not None:
                values.setdefault(" ".join(words), []).append(f"{at} {option}")
        offers.setdefault(" ".join((*place.words, *place.options)), []).append(at)
    text = _SHELLS[shell]
    for gap, name, table in (
        ("FOLLOW", "at", follow),
        ("VALUES", "offered", values),
        ("OFFERS", "offered", offers),
    ):
        text = text.replace(
            f"@{gap}@", "\n".join(_case(name, result, keys) for result, keys in table.items())
        )
    return text


def _case(name: str, value: str, patterns: Sequence[str]) -> str:
    """One branch: where these words were typed, the variable gets this value."""
    return f"        {'|'.join(map(shlex.quote, patterns))}) {name}={shlex.quote(value)} ;;"
