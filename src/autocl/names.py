"""Names as people type them, and registries of what they stand for.

`split_class` is `split-class`, and a typing error is answered with a guess.
"""

import difflib
import importlib
import pkgutil
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from autocl.errors import AutoclError, InputError


def match(name: str, known: Iterable[str]) -> str | None:
    """The known name that is meant, or None. Case does not count, and - is _.

    Example:
        >>> match("Split_Class", ["split-class", "quick"])
        'split-class'
    """
    known = list(known)
    if name in known:
        return name
    return next((k for k in known if _plain(k) == _plain(name)), None)


def guess(name: str, known: Iterable[str]) -> str:
    """A question to put behind "there is no …": " did you mean 'x'?", or nothing where nothing is near.

    Example:
        >>> guess("quik", ["split-class", "quick"])
        " did you mean 'quick'?"
    """
    spelled = {_plain(k): k for k in known}
    near = difflib.get_close_matches(_plain(name), spelled, n=1, cutoff=0.6)
    return f" did you mean {spelled[near[0]]!r}?" if near else ""


def resolve(
    name: str, known: Iterable[str], what: str, *, hint: str = "", error: type[AutoclError] = InputError
) -> str:
    """The known name that is meant; otherwise an error that names the nearest one and lists them all.

    Args:
        name: as typed.
        known: all names there are.
        what: what they name, in the singular: "recipe".
        hint: more to say after the list.
        error: what to raise.

    Example:
        >>> resolve("split_class", ["split-class"], "learner")
        'split-class'
        >>> resolve("quik", ["fast", "quick"], "recipe")
        Traceback (most recent call last):
        autocl.errors.InputError: there is no recipe 'quik': did you mean 'quick'? choose one of fast, quick
    """
    known = list(known)
    if (found := match(name, known)) is not None:
        return found
    raise error(f"there is no {what} {name!r}:{guess(name, known)} choose one of {', '.join(known)}{hint}")


def _plain(name: str) -> str:
    return name.casefold().replace("_", "-")


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
        """Look up a name; an `InputError` lists the alternatives if it is unknown."""
        return self._known[resolve(name, self.names(), self.what)]
