"""A classifier that learns image files, and remembers in its own file which ones it has learned.

The list of learned files lies in the metadata of the classifier's file, so that both are always of the same
moment: whatever stops the program, the next run learns what is missing, and nothing twice.
"""

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path

from autocl.data.folder import SUFFIXES
from autocl.errors import FileError, InputError
from autocl.estimator.classifier import ContinualClassifier
from autocl.files import read_tensors
from autocl.pictures import decode

BATCH = 32
"""Images between two savings: a stop costs seconds, and saving costs little beside learning."""
LEARNER = "everyday"
"""Learner of a new file."""


@dataclass(frozen=True)
class Picture:
    """An image file and what it shows."""

    path: Path
    label: str


def image_files(place: Path) -> list[Path]:
    """The image files of a folder, by name; a file is its own. Hidden ones are passed over."""
    if place.is_file():
        return [place]
    if not place.is_dir():
        raise InputError(f"{place}: no such file or folder")
    return sorted(f for f in place.iterdir() if f.suffix.lower() in SUFFIXES and not f.name.startswith("."))


def list_pictures(places: Sequence[Path], label: str | None = None) -> list[Picture]:
    """Image files with their labels, the classes of each folder taking turns.

    Args:
        places: folders that hold one folder of images per class; with a label also files and plain folders.
        label: of everything in `places`; default: the name of each image's folder.
    """
    found: list[Picture] = []
    for place in places:
        if label is not None:
            found += [Picture(file, label) for file in image_files(place)]
            continue
        if place.is_file():
            raise InputError(f"what does {place} show? Add --label NAME, or give a folder of class folders")
        loose = image_files(place)
        classes = sorted(f for f in place.iterdir() if f.is_dir() and not f.name.startswith("."))
        if loose and not classes:
            raise InputError(
                f"{place} holds images but no folders: sort them into a folder per class, or add --label NAME"
            )
        turns = zip_longest(*([Picture(file, c.name) for file in image_files(c)] for c in classes))
        found += [picture for turn in turns for picture in turn if picture is not None]
    return found


def new_pictures(
    find: Callable[[], list[Picture]], *, sleep: Callable[[float], object] = time.sleep
) -> Iterator[list[Picture]]:
    """Wait for files, for ever: yields those that are new or changed, once they have stopped growing.

    Args:
        find: lists all there are.
        sleep: is called with the seconds between two looks.
    """
    before: dict[Picture, tuple[int, int]] = {}
    given: dict[Picture, tuple[int, int]] = {}
    while True:
        now = {picture: stamp for picture in find() if (stamp := _stamp(picture.path))}
        ready = [p for p, stamp in now.items() if before.get(p) == stamp != given.get(p)]
        if ready:
            yield ready
        given |= {picture: now[picture] for picture in ready}
        before = now
        sleep(1.0)


@dataclass
class Learned:
    """Numbers of files learned, known before, and damaged."""

    new: int = 0
    known: int = 0
    """Learned before."""
    damaged: list[Path] = field(default_factory=list)


class FileLearner:
    """A classifier with its file, which is saved after every few images.

    Args:
        state: the file; made if it is not there yet.
        learner: name or path; default: the one that the file was made with, or `everyday`.
    """

    def __init__(self, state: str | Path, learner: str | None = None) -> None:
        self.path = Path(state)
        self._seen: set[str] = set()
        self._saved = _stamp(self.path)
        if self._saved is None:
            self.classifier = ContinualClassifier(learner or LEARNER, overflow="ensemble")
            return
        self.classifier = ContinualClassifier.load(self.path, learner)
        _, meta = read_tensors(self.path, kind="classifier")
        self._seen = set(meta.get("files", "").split())

    def learn(self, pictures: Sequence[Picture], dealt_with: Callable[[], object] = lambda: None) -> Learned:
        """Learn the files that are new to it, a few at a time, and save after each few.

        Args:
            pictures: what to learn. The same content under the same label is learned once.
            dealt_with: is called once for each picture.
        """
        result = Learned()
        batch: dict[str, Picture] = {}
        for i, picture in enumerate(pictures):
            try:
                mark = _mark(picture)
            except OSError:
                result.damaged.append(picture.path)
            else:
                if mark in self._seen or mark in batch:
                    result.known += 1
                else:
                    batch[mark] = picture
            if batch and (len(batch) == BATCH or i + 1 == len(pictures)):
                self._learn_batch(batch, result)
                batch = {}
            dealt_with()
        return result

    def _learn_batch(self, batch: dict[str, Picture], result: Learned) -> None:
        try:
            self._fit(batch)
        except FileError:
            damaged = {mark for mark, picture in batch.items() if not is_image(picture.path)}
            if not damaged:
                raise
            result.damaged += [batch[mark].path for mark in batch if mark in damaged]
            batch = {mark: picture for mark, picture in batch.items() if mark not in damaged}
            if not batch:
                return
            self._fit(batch)
        if _stamp(self.path) != self._saved:
            raise FileError(f"{self.path} was changed by another program meanwhile: start again to go on")
        self._seen |= batch.keys()
        self.classifier.save(self.path, notes={"files": " ".join(sorted(self._seen))})
        self._saved = _stamp(self.path)
        result.new += len(batch)

    def _fit(self, batch: dict[str, Picture]) -> None:
        self.classifier.partial_fit([p.path for p in batch.values()], [p.label for p in batch.values()])


def is_image(path: Path) -> bool:
    """Whether a file can be decoded to its end."""
    try:
        decode(path)
    except FileError:
        return False
    return True


def _mark(picture: Picture) -> str:
    """Hash of a demo's label and file content, 16 hexadecimal digits."""
    digest = hashlib.sha256(picture.label.encode() + b"\0")
    digest.update(picture.path.read_bytes())
    return digest.hexdigest()[:16]


def _stamp(path: Path) -> tuple[int, int] | None:
    """Size and time of a file; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns
