"""What image sets cost: loading from the cache beside decoding, memory, glyphs, augmentation.

Run: python -m benchmarks.data [--memory]

Everything is measured in one run on this machine. `--memory` also decodes every set found here into a
fresh cache, each in a process of its own, and compares its peak memory with the decoded size (minutes).
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from statistics import median

import numpy as np
import torch

from autocl.data import Augment, draw_glyphs, load
from autocl.data.catalog import CATALOG
from autocl.data.locate import locate

ROUNDS = 5


def seconds(work: Callable[[], object], rounds: int = ROUNDS) -> float:
    work()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return median(times)


def loading() -> None:
    name, split = next(
        ((n, "train") for n in ("mini_imagenet", "mnist") if locate(CATALOG[n], "train")), ("digits", "train")
    )
    with tempfile.TemporaryDirectory() as folder:
        os.environ["AUTOCL_CACHE"] = folder
        start = time.perf_counter()
        images = load(name, split).images
        decoding = time.perf_counter() - start
        cached = seconds(lambda: load(name, split))
        reading = seconds(lambda: np.array(images))
    print(
        f"{name} {split}, {images.nbytes / 1e6:.0f} MB: from the cache, verified, {cached:.3f} s "
        f"(limit: 1 s); {decoding / cached:.0f}× faster than decoding; {cached / reading:.1f}× a plain copy"
    )


def glyphs() -> None:
    labels, turns = np.repeat(np.arange(250), 20), np.tile(np.arange(20), 250)
    each = seconds(lambda: draw_glyphs(labels, turns)) / len(labels)
    print(f"glyphs: {1 / each:,.0f} drawings of 32×32 per second, {1 / each / 5000:.1f}× the 5,000 asked for")


def augmentation() -> None:
    images = load("glyphs", classes=200)
    index = torch.arange(4000)
    generator = torch.Generator()
    plain = seconds(lambda: images.take(index))
    for title, augment in {
        "affine": Augment(rotate=15, scale=0.2, shear=0.2, shift=0.1),
        "thickness": Augment(thickness=0.5),
        "all": Augment(rotate=15, scale=0.2, shear=0.2, shift=0.1, thickness=0.5, contrast=0.3),
    }.items():
        changed = seconds(partial(images.take, index, augment=augment, generator=generator))
        print(f"take 4,000 images with {title}: {changed * 1e3:.0f} ms, {changed / plain:.1f}× without")


# Loaded twice, into two empty caches: what the first time costs once and for all, imports and pages of code,
# is not the set's; what it left in the allocator is given back. (getrusage would report the peak of the
# parent process as well.)
_PEAK = """
import ctypes, gc, os, pathlib, re, sys
from autocl.data import load
name, split, first, second = sys.argv[1:]
def kilobytes(what):
    return int(re.search(what + r":\\s+(\\d+)", pathlib.Path("/proc/self/status").read_text())[1])
os.environ["AUTOCL_CACHE"] = first
load(name, split)
gc.collect()
ctypes.CDLL("libc.so.6").malloc_trim(0)
os.environ["AUTOCL_CACHE"] = second
pathlib.Path("/proc/self/clear_refs").write_text("5")
before = kilobytes("VmRSS")
images = load(name, split).images
print((kilobytes("VmHWM") - before) * 1024, images.nbytes)
"""


def peak_of_loading(name: str, split: str) -> tuple[int, int]:
    """Peak bytes of decoding into an empty cache, and decoded bytes."""
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        command = [sys.executable, "-c", _PEAK, name, split, first, second]
        peak, size = subprocess.check_output(command, text=True).split()
    return int(peak), int(size)


def memory() -> None:
    for info in CATALOG.values():
        for split in info.splits:
            if info.make is None and locate(info, split) is None:
                continue
            peak, size = peak_of_loading(info.name, split)
            print(
                f"{info.name} {split}: peak memory {peak / 1e6:.1f} MB, {peak / size:.2f}× its decoded "
                f"{size / 1e6:.1f} MB (limit: 2.5×, or 40 MB)",
                flush=True,
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--memory", action="store_true", help="Linux only")
    arguments = parser.parse_args()
    loading()
    glyphs()
    augmentation()
    if arguments.memory:
        memory()
