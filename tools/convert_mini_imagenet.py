"""From mini-ImageNet's cached pickles, as they are passed around, to arrays that `autocl.data.load` reads.

    python -m tools.convert_mini_imagenet SOURCE TARGET

SOURCE is mini-imagenet.tar.gz or a folder with mini-imagenet-cache-{train,val,test}.pkl in it; TARGET is the
folder mini_imagenet inside your data folder (AUTOCL_DATA). For each split it gets mini-imagenet-{split}.npy,
uint8 [n, 84, 84, 3], and a .json with the row numbers of each class.

A pickle is a program. This reader runs none of it but what builds numpy arrays, dictionaries, lists, numbers
and strings; anything else in the file ends the reading.
"""

import io
import pickle
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from autocl.errors import AutoclError, DataError, InputError
from autocl.files import write_json

SPLITS = ("train", "val", "test")
ALLOWED = {("numpy", "ndarray"), ("numpy", "dtype"), ("_codecs", "encode")} | {
    (f"numpy.{core}.{name}", function)
    for core in ("core", "_core")
    for name, function in (("multiarray", "_reconstruct"), ("numeric", "_frombuffer"))
}
"""All that the pickle of an array may call."""


class ArrayUnpickler(pickle.Unpickler):
    """Reads arrays and plain values, and refuses everything else."""

    def find_class(self, module: str, name: str) -> Any:
        """Give the function that an instruction names, if it is one that builds arrays."""
        if (module, name) not in ALLOWED:
            raise DataError(f"the pickle mentions {module}.{name}, which has no place in a data file")
        return super().find_class(module, name)


def read_tables(source: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each split and what its pickle holds: `image_data`, and `class_dict` from WordNet id to row numbers."""
    found = []
    if source.is_dir():
        for split in SPLITS:
            found.append((split, (source / f"mini-imagenet-cache-{split}.pkl").read_bytes()))
    else:
        with tarfile.open(source) as archive:
            for member in archive:
                for split in SPLITS:
                    file = archive.extractfile(member) if member.name.endswith(f"{split}.pkl") else None
                    if file is not None:
                        found.append((split, file.read()))
    for split, data in found:
        # latin1: how strings of Python 2 are read.
        yield split, ArrayUnpickler(io.BytesIO(data), encoding="latin1").load()


def convert(source: Path, target: Path) -> None:
    """Write the arrays and row numbers of every split."""
    target.mkdir(parents=True, exist_ok=True)
    try:
        for split, table in read_tables(source):
            images = table["image_data"]
            if images.dtype != np.uint8 or images.ndim != 4:
                raise DataError(f"{split}: image_data is {images.dtype} {list(images.shape)}, not pixels")
            rows = {str(wnid): [int(i) for i in numbers] for wnid, numbers in table["class_dict"].items()}
            np.save(target / f"mini-imagenet-{split}.npy", images, allow_pickle=False)
            write_json(target / f"mini-imagenet-{split}.json", rows)
            print(f"{split}: {len(rows)} classes, {len(images)} images")
    except AutoclError:
        raise
    except Exception as error:
        raise DataError(f"{source} cannot be read as mini-ImageNet's pickles ({error!r})") from error


if __name__ == "__main__":
    try:
        if len(sys.argv) != 3:
            raise InputError(f"give SOURCE and TARGET:\n{__doc__}")
        convert(Path(sys.argv[1]), Path(sys.argv[2]))
    except AutoclError as error:
        sys.exit(str(error))
