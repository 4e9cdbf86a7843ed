"""Find a learner by its name in the zoo, by its path, or take the object itself."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from autocl import zoo
from autocl.errors import InputError
from autocl.learner.base import FILE_NAME, Learner
from autocl.names import guess, match

DEFAULT_FILES = (FILE_NAME, "best.safetensors")
"""Names of a learner's file in a folder of its own: that of `save_pretrained`, that of a run."""


@contextmanager
def learner_file(learner: str | Path) -> Iterator[Path]:
    """The file of a learner.

    Args:
        learner: a name in the zoo, which goes before a path of the same name; the path of a file; or a
            folder, of a run or written by `save_pretrained`.
    """
    path = Path(learner)
    shipped = match(str(learner), zoo.names())
    if path.exists() and shipped != learner:
        yield next((path / name for name in DEFAULT_FILES if (path / name).is_file()), path)
    elif shipped is not None and isinstance(learner, str):
        with zoo.file(shipped) as file:
            yield file
    else:
        names = ", ".join(zoo.names()) or "empty"
        raise InputError(
            f"learner {str(learner)!r} is neither a name in the zoo ({names}) nor an existing file or folder"
            + (f":{near}" if (near := guess(str(learner), zoo.names())) else "")
        )


def display_name(file: Path) -> str:
    """Name of a learner in tables: after its file, or its folder if the file has a default name."""
    return file.resolve().parent.name if file.name in DEFAULT_FILES else file.stem


def find_learner(learner: str | Path | Learner) -> Learner:
    """The learner that is meant, in evaluation mode.

    Args:
        learner: see `learner_file`; or a `Learner`.

    Example:
        >>> from autocl import LearnerConfig
        >>> find_learner(Learner(LearnerConfig(n_classes=3))).training
        False
    """
    if isinstance(learner, str | Path):
        with learner_file(learner) as file:
            return Learner.from_pretrained(file)
    if not isinstance(learner, Learner):
        raise InputError(f"learner={learner!r} is neither a Learner nor the name or path of one")
    # Dropout would make answers random; the caller's own module is left as it is.
    return copy.deepcopy(learner).eval() if learner.training else learner
