"""Weights from a file into the module that the file's configuration describes.

A small file can describe a huge module. So the module is first made without memory, on torch's meta device,
and its shapes are compared with those of the tensors that are really there.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from autocl.errors import FileError, InputError
from autocl.files import check_tensors, read_tensors
from autocl.typed_json import parse_json


class Holder(Protocol):
    """A module that says itself which of its weights a file holds."""

    def weights(self) -> dict[str, Tensor]:
        """Those that a file holds, by name."""

    def load_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Take what `weights` gave."""


M = TypeVar("M", bound=Holder)


def load_module(path: Path, *, kind: str, build: Callable[[dict[str, Any]], M]) -> tuple[M, dict[str, str]]:
    """Read a module from a file that holds its weights, and its configuration as JSON in the metadata.

    Args:
        path: the file.
        kind: what it must be.
        build: makes the module of its configuration; called twice, first on the meta device.

    Returns:
        The module, and the file's metadata.
    """
    tensors, meta = read_tensors(path, kind=kind)
    if "config" not in meta:
        raise FileError(f"{path}: lacks its configuration")
    config = parse_json(meta["config"], dict[str, Any], where=f"{path}, config")
    try:
        with torch.device("meta"), _at_most(1000 + 4 * len(tensors)):  # some are made and thrown away
            plan = build(config)
        check_tensors(path, tensors, plan.weights())
        module = build(config)
        module.load_weights(tensors)
    except FileError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RuntimeError) as error:
        # torch says what is wrong in its first two lines
        reason = " ".join(line.strip() for line in str(error).splitlines()[:2])
        raise FileError(f"{path}: the configuration and the weights do not fit: {reason}") from error
    return module, meta


@contextmanager
def _at_most(tensors: int) -> Iterator[None]:
    """Refuse, in this thread, to make modules of more parameters than that."""
    me, made = threading.get_ident(), 0

    def count(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        nonlocal made
        if threading.get_ident() == me:
            made += parameter is not None
            if made > tensors:
                raise InputError("it describes far more tensors than are there")

    handle = register_module_parameter_registration_hook(count)
    try:
        yield
    finally:
        handle.remove()
