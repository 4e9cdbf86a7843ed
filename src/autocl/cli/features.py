"""`autocl features`: a backbone's vectors of image sets or folders, computed once and kept."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from autocl.data.catalog import describe
from autocl.data.features import Precision, compute_features
from autocl.data.folder import PictureList, list_folder, list_set
from autocl.data.loading import load
from autocl.encoders.backbones import get_backbone
from autocl.errors import InputError

Name = Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="BACKBONE")]
Sources = Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="SET|FOLDER")]


def features(
    backbone: Name, sources: Sources, /, *, workers: int = 2, size: int = 32, dtype: Precision = "float16"
) -> None:
    """Compute and keep features.

    Args:
        backbone: lite0, lite1, lite2, lite2-levels, timm:NAME, torchvision:NAME, hf:REPO, open_clip:NAME/TAG,
            onnx:FILE or vit:FILE.
        sources: folders of class folders, or names of image sets (`autocl data list`), as NAME or NAME/SPLIT.
        workers: chunks of images in work at once.
        size: pixels a side at which image sets are loaded; folders are read at their own size.
        dtype: precision on disk.

    Examples:
        autocl features lite0 ~/photos                    a folder with one folder of pictures per class
        autocl features lite2 cifar100 omniglot/test      an image set, or one split of it
    """
    if not sources:
        raise InputError("nothing to compute features of: name image sets or folders")
    encoder = get_backbone(backbone)
    console = Console()
    for source in sources:
        for pictures in _pictures(source, size):
            start = time.perf_counter()
            made = compute_features(pictures, encoder, workers=workers, dtype=dtype)
            seconds = time.perf_counter() - start
            console.print(
                f"{made.name} {made.split}: {len(made.features)} vectors of {made.n_features}, "
                f"{made.n_classes} classes, {encoder.name}, {seconds:.1f} s, hash {made.hash[:12]}",
                soft_wrap=True,
                highlight=False,
            )


def _pictures(source: str, size: int) -> Iterator[PictureList]:
    """Pictures that a word of the command line names: a folder where there is one, else an image set."""
    if Path(source).expanduser().is_dir():
        yield list_folder(source)
        return
    name, _, split = source.partition("/")
    info = describe(name or source)
    for part in (split,) if split else info.splits:
        yield list_set(load(name, part, size=size))
