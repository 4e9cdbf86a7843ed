"""The tables by name, in the order of the paper; every module of this package is searched for them.

A module gives its tables as `PROTOCOLS`, a tuple of `Protocol`: a new table is a new file here.
"""

import importlib
import pkgutil

from autocl.evaluation.protocol import Protocol


def _found() -> list[Protocol]:
    modules = (importlib.import_module(f"{__name__}.{m.name}") for m in pkgutil.iter_modules(__path__))
    return [protocol for module in modules for protocol in module.PROTOCOLS]


PROTOCOLS: dict[str, Protocol] = {p.name: p for p in sorted(_found(), key=lambda p: p.position)}
