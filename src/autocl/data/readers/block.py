"""What every reader gives: named classes, and blocks of images with their labels.

A reader streams, so that a set never has to be in memory twice: it yields images in file order, a few
hundred at a time, and whoever consumes them resizes and sorts.

Shape legend: m = images of a block, H, W = pixels as stored.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from autocl.errors import AutoclError, DataError

Block = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]
"""uint8 [m, H, W] or [m, H, W, 3], and int64 [m]: the class number of each image."""


@dataclass(frozen=True, kw_only=True)
class Raw:
    """The content of one split of one set, not yet read."""

    classes: tuple[str, ...]
    blocks: Iterable[Block]
    notes: str = ""


@contextmanager
def reading(path: Path, expected: str) -> Iterator[None]:
    """Turn any failure while reading `path` into one `DataError` that names the file and the remedy."""
    try:
        yield
    except AutoclError:
        raise
    except FileNotFoundError as error:
        raise DataError(f"{path} does not exist: expected {expected}") from error
    except Exception as error:
        # Damaged bytes make the standard library, numpy, scipy and Pillow raise almost anything.
        detail = str(error).splitlines()[0] if str(error) else ""
        raise DataError(
            f"{path} cannot be read as {expected} ({type(error).__name__}{': ' if detail else ''}{detail}). "
            "The file is damaged, incomplete or of another kind: delete it and get it again"
        ) from error


def damaged(path: Path, expected: str, found: str) -> DataError:
    """The error for a file that can be read but holds something else than it should."""
    return DataError(
        f"{path} is not {expected}: {found}. The file is damaged, incomplete or of another kind: "
        "delete it and get it again"
    )


def hold_out(raw: Raw, split: str) -> Raw:
    """A split for sets that come without one: every fifth image in file order is for testing."""

    def blocks() -> Iterator[Block]:
        at = 0
        for images, labels in raw.blocks:
            testing = (np.arange(at, at + len(labels)) + 1) % 5 == 0
            chosen = testing if split == "test" else ~testing
            at += len(labels)
            yield images[chosen], labels[chosen]

    notes = "split made by autocl: every fifth image in file order is for testing"
    return Raw(classes=raw.classes, blocks=blocks(), notes=notes)
