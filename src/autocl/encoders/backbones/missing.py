"""One line for what is not installed or cannot be downloaded."""

from collections.abc import Iterator
from contextlib import contextmanager
from textwrap import shorten

from autocl.errors import AutoclError, FileError, InputError


@contextmanager
def needs(backbone: str, extra: str, package: str) -> Iterator[None]:
    """Around an import: when `package` is missing, say which extra of autocl brings it."""
    try:
        yield
    except ImportError as error:
        raise InputError(
            f"backbone {backbone!r} needs {package} ({error}): pip install 'autocl[{extra}]'"
        ) from error


@contextmanager
def downloading(backbone: str, folder: str) -> Iterator[None]:
    """Around a hub's loading: whatever it raises becomes one line with the remedy.

    Args:
        backbone: what was asked for.
        folder: where the hub keeps what it has downloaded.
    """
    try:
        yield
    except AutoclError:
        raise
    except Exception as error:  # each hub and each network library has errors of its own
        line = shorten(str(error), 200, placeholder=" …")
        raise FileError(
            f"backbone {backbone!r} could not be loaded ({type(error).__name__}: {line}). Check the name; if "
            f"this machine is offline, load it once on one that is not and copy that one's {folder} here"
        ) from error
