"""Registry: things found by name, each registered by the file that defines it."""

import importlib
import pkgutil
from collections.abc import Callable
from typing import Generic, TypeVar

from autocl.names import resolve

T = TypeVar("T")


class Registry(Generic[T]):
    """Names and what they stand for. Every module of a package is searched, so adding one touches one file.

    Args:
        what: what the names name, in the singular, for messages.
        package: whose modules register themselves.

    Example:
        >>> from autocl.readouts import READOUTS
        >>> READOUTS.get("rigde")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        autocl.errors.InputError: there is no read-out 'rigde': did you mean 'ridge'? choose one of ...
    """

    def __init__(self, what: str, package: str) -> None:
        self.what, self.package = what, package
        self._known: dict[str, T] = {}
        self._searched = False

    def register(self, name: str) -> Callable[[T], T]:
        """Decorator: offer what follows under this name."""

        def add(thing: T) -> T:
            self._known[name] = thing
            return thing

        return add

    def names(self) -> list[str]:
        """All names, sorted."""
        if not self._searched:
            self._searched = True
            for module in pkgutil.iter_modules(importlib.import_module(self.package).__path__):
                importlib.import_module(f"{self.package}.{module.name}")
        return sorted(self._known)

    def get(self, name: str) -> T:
        """What a name stands for; an `InputError` with the alternatives if nothing."""
        return self._known[resolve(name, self.names(), self.what)]
