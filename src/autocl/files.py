"""Safetensors files, written so that a crash never leaves half of one, and read so that damage is named."""

import json
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from autocl.errors import FileError


def write_atomic(path: str | Path, write: Callable[[str], None]) -> None:
    """Let `write` fill a temporary file beside `path`, flush it to disk, then rename it into place."""
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise FileError(f"cannot write to {path.parent}: {error.strerror}; choose another folder") from error
    os.close(handle)
    try:
        write(temporary)
        os.chmod(temporary, 0o666 & ~_umask())  # mkstemp hides its files from others
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except (OSError, SafetensorError) as error:
        raise FileError(f"could not write {path}: {error}; a previous file is untouched") from error
    finally:
        Path(temporary).unlink(missing_ok=True)


def _umask() -> int:
    """The process's umask, which can only be read by setting it."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def write_json(path: str | Path, value: object) -> None:
    """Write JSON atomically, readable by people."""
    write_text(path, json.dumps(value, indent=2) + "\n")


def write_text(path: str | Path, text: str) -> None:
    """Write text atomically."""
    _write_bytes(path, text.encode())


def _write_bytes(path: str | Path, data: bytes) -> None:
    def write(name: str) -> None:
        Path(name).write_bytes(data)

    write_atomic(path, write)


def write_tensors(path: str | Path, tensors: Mapping[str, Tensor], meta: Mapping[str, str]) -> None:
    """Write tensors with metadata. `meta["kind"]` says what the file is."""
    # Not save_file: it makes a temporary file of its own, which a killed process leaves behind.
    _write_bytes(path, save(dict(tensors), {"format": "autocl", **meta}))


def read_tensors(path: str | Path, *, kind: str) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read tensors and metadata of a file that `write_tensors` wrote with this kind."""
    path = Path(path)
    if not path.is_file():
        raise FileError(f"{path}: no such file")
    try:
        with safe_open(path, framework="pt") as file:
            meta = dict(file.metadata() or {})
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # not a dict
    except (SafetensorError, OSError, ValueError) as error:
        raise FileError(f"{path}: damaged, truncated or not a safetensors file ({error})") from error
    if meta.get("format") != "autocl" or meta.get("kind") != kind:
        found = f"an autocl {meta['kind']}" if meta.get("format") == "autocl" else "not written by autocl"
        raise FileError(f"{path}: expected an autocl {kind} file, but this one is {found}")
    return tensors, meta
