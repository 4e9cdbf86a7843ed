"""Drawn glyphs as an image set: as many classes and drawings as asked for, no download."""

from collections.abc import Iterator

import numpy as np

from autocl.data.archives import Block, Raw
from autocl.data.catalog import Options, SetInfo
from autocl.data.glyphs import draw_glyphs
from autocl.errors import InputError

_FIRST = {"train": 0, "val": 1 << 32, "test": 2 << 32}
"""Splits number their glyphs from different places on, so they never share one."""
_BLOCK = 64


def _make(split: str, size: int, options: Options) -> Raw:
    classes, examples, seed = (int(options[name]) for name in ("classes", "examples", "seed"))
    for name in ("classes", "examples"):
        if options[name] < 1:
            raise InputError(f"option {name}={options[name]} of the drawn glyphs must be at least 1")
    if seed < 0:
        raise InputError(f"option seed={seed} of the drawn glyphs must not be negative")

    def blocks() -> Iterator[Block]:
        for at in range(0, classes, _BLOCK):
            labels = np.repeat(np.arange(at, min(at + _BLOCK, classes)), examples)
            drawings = np.arange(len(labels)) % examples
            yield draw_glyphs(_FIRST[split] + labels, drawings, seed=seed, size=size), labels

    names = tuple(f"glyph-{seed}-{_FIRST[split] + number}" for number in range(classes))
    return Raw(classes=names, blocks=blocks())


def _for_validation(training: Options) -> Options:
    """A tenth of the training classes."""
    return {**training, "classes": max(100, training["classes"] // 10)}


_SET = SetInfo(
    name="glyphs",
    title="drawn glyphs",
    splits=tuple(_FIRST),
    make=_make,
    channels=1,
    # Of 1,000 classes × 20 drawings at 32×32, seed 0.
    mean=(0.1016,),
    std=(0.2754,),
    options={"classes": 1000, "examples": 20, "seed": 0},
    validation_options=_for_validation,
    licence="MIT",
    citation="autocl",
)
