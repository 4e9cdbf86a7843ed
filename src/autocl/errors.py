"""Errors, said so that a person can act on them.

Every error a user can cause derives from `AutoclError`. Its message names the offending value, where it
came from, and the remedy. The command line prints it in one line and exits with status 2.
"""


class AutoclError(Exception):
    """Base of all errors that autocl raises on purpose."""


class InputError(AutoclError, ValueError):
    """An argument has the wrong shape, type, range or content. Nothing was changed."""


class FileError(AutoclError, OSError):
    """A file is missing, damaged, of another format, or belongs to something else."""


class DataError(AutoclError):
    """A data set cannot be found, downloaded, read or split as asked."""


class TrainingError(AutoclError):
    """Meta-training cannot start or go on."""


class StateError(AutoclError):
    """A learner's state or its answers are no longer finite numbers. The state before stands."""


def short(value: object, most: int = 60) -> str:
    """A value as messages show it, cut after so many characters."""
    try:
        text = repr(value)
    except ValueError:  # an integer of more than 4,300 digits
        text = "a huge number"
    return text if len(text) <= most else text[:most] + "…"
