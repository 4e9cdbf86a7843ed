"""`autocl learn`: from folders of images to one small file that knows them."""

import sys
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from autocl.cli.terminal import Left, say
from autocl.errors import FileError, InputError
from autocl.estimator.folder import FileLearner, Learned, Picture, list_pictures, new_pictures
from autocl.progress import progress_bar


def learn(
    images: Annotated[Positional[tuple[Path, ...]], arg(metavar="FOLDER", help_behavior_hint="")],
    /,
    *,
    state: Path,
    learner: Left[str] = None,
    label: Left[str] = None,
    watch: bool = False,
) -> None:
    """Learn images into one small file, without keeping them. Call it again whenever there are more.

    Images that the file has learned before are passed over, by content. It is saved after every few images:
    Ctrl-C loses nothing, and the same command goes on.

    Args:
        images: a folder that holds one folder of images per class; with --label also single files.
        state: the file to learn into; made if it is not there. For autocl predict.
        learner: a name in the zoo or a path; default: that of the file, everyday for a new one.
        label: what all these images show.
        watch: stay, and learn what is put into the folder, until Ctrl-C.

    Examples:
        autocl learn photos --state pets.safetensors               photos/cat/1.jpg, photos/dog/2.jpg, …
        autocl learn new1.jpg new2.jpg --label hamster --state pets.safetensors
        autocl learn photos --state pets.safetensors --watch
        autocl predict pets.safetensors unknown.jpg
    """
    if not images:
        raise InputError("there is nothing to learn: name a folder that holds one folder of images per class")
    pictures = list_pictures(images, label)
    if not pictures and not watch:
        raise InputError(f"{images[0]} holds no images: it should hold one folder of images per class")
    into = FileLearner(state, learner)
    if watch:
        say(f"watching {', '.join(map(str, images))}; Ctrl-C ends it")
        try:
            for found in new_pictures(lambda: list_pictures(images, label)):
                _report(into, _learn(into, found))
        except KeyboardInterrupt:
            say(f"stopped; everything learned is in {state}")
        return
    try:
        done = _learn(into, pictures)
    except KeyboardInterrupt:
        print(f"autocl: stopped; what was learned is in {state}, the same command goes on", file=sys.stderr)
        sys.exit(130)
    _report(into, done)
    if done.damaged:
        raise FileError(f"{len(done.damaged)} of {len(pictures)} files are no images or damaged: see above")


def _learn(into: FileLearner, pictures: list[Picture]) -> Learned:
    """Learn with a bar that says how long it will take, on a terminal."""
    with progress_bar(transient=True) as bar:
        task = bar.add_task("learning", total=len(pictures))
        return into.learn(pictures, lambda: bar.advance(task))


def _report(into: FileLearner, done: Learned) -> None:
    for path in done.damaged:
        print(f"{path}: not an image, or a damaged one; passed over", file=sys.stderr)
    if done.new or done.known:
        clf = into.classifier
        before = f", {done.known} known before" if done.known else ""
        knows = f"{into.path} knows {len(clf.classes_)} classes from {clf.n_seen_}"
        say(f"learned {done.new} images{before}; {knows}")
