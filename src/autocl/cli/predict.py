"""`autocl predict`: what a file made by `autocl learn` says of other images."""

import csv
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from rich.console import Console
from tyro.conf import Positional, arg

from autocl.cli.terminal import Left, tabulate
from autocl.errors import FileError, InputError
from autocl.estimator.classifier import ContinualClassifier
from autocl.estimator.folder import BATCH, image_files, is_image

Answer = dict[str, Any]
"""file, label and confidence of one image; novelty and unknown if asked for."""


def predict(
    state: Annotated[Positional[Path], arg(metavar="STATE")],
    images: Annotated[Positional[tuple[Path, ...]], arg(metavar="IMAGES", help_behavior_hint="")],
    /,
    *,
    format: Literal["table", "csv", "json"] = "table",
    unknown: Left[float] = None,
    learner: Left[str] = None,
) -> None:
    """Say what images show, and how sure that is. Nothing is learned by it.

    Args:
        state: a file made by `autocl learn` or `ContinualClassifier.save`.
        images: files, or folders of files.
        format: of the answers.
        unknown: say of each image whether its class is unknown: whether it is less like all that was learned
            than this, from 0 to 1. Try it on images of your own; 0.5 is a start.
        learner: where its learner is, if that has moved.

    Examples:
        autocl predict pets.safetensors unknown.jpg
        autocl predict pets.safetensors photos/new --unknown 0.5
        autocl predict pets.safetensors photos/new --format csv > answers.csv
    """
    clf = ContinualClassifier.load(state, learner)
    files = [file for place in images for file in image_files(place)]
    if not files:
        raise InputError("there is nothing to predict: name image files, or folders that hold some")
    answers: list[Answer] = []
    damaged: list[Path] = []
    for i in range(0, len(files), BATCH):
        batch = files[i : i + BATCH]
        try:
            answers += answer(clf, batch, unknown)
        except FileError:
            damaged += [file for file in batch if not is_image(file)]
            answers += answer(clf, [file for file in batch if file not in damaged], unknown)
    show(answers, format)
    if damaged:
        raise FileError(f"no images, or damaged ones: {', '.join(map(str, damaged))}")


def answer(clf: ContinualClassifier, files: Sequence[Path], unknown: float | None) -> list[Answer]:
    """Answers of a classifier to files that are images."""
    if not files:
        return []
    shares = clf.predict_proba(list(files))
    names = [str(label) for label in clf.classes_]
    found = zip(files, shares.argmax(1), shares.max(1), strict=True)
    answers: list[Answer] = [
        {"file": str(file), "label": names[k], "confidence": round(float(p), 4)} for file, k, p in found
    ]
    if unknown is not None:
        for said, novelty in zip(answers, clf.novelty(list(files)), strict=True):
            said |= {"novelty": round(float(novelty), 4), "unknown": bool(novelty > unknown)}
    return answers


def show(answers: Sequence[Answer], format: Literal["table", "csv", "json"]) -> None:
    """Print answers."""
    if format == "json":
        print(json.dumps(answers, indent=2, ensure_ascii=False))
        return
    headings = list(answers[0]) if answers else ["file", "label", "confidence"]
    if format == "csv":
        writer = csv.DictWriter(sys.stdout, headings, lineterminator="\n")
        writer.writeheader()
        writer.writerows(answers)
    else:
        cells = [[_cell(value) for value in said.values()] for said in answers]
        Console().print(tabulate(headings, cells, right=("confidence", "novelty")))


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.0%}" if isinstance(value, float) else str(value)
