"""Safetensors files, written so that a crash never leaves half of one, and read so that damage is noticed.

Every file carries a SHA-256 of all that is in it: a flipped bit is an error, not another answer. It is no
signature: who means harm can compute it, too. So readers check what they read as well: a small file can
describe a huge module, whose shapes are therefore compared first, on torch's meta device.
"""

import glob
import hashlib
import json
import os
import secrets
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from autocl.errors import FileError, InputError
from autocl.typed_json import MAX_CHARS, parse_json

SEAL = "sha256"
"""Metadata: hex digits of the SHA-256 over the rest of the metadata and the tensors."""
UNSEALED, SEALED = "autocl", "autocl 2"
"""Metadata: the format of 0.1 without that entry, and the one with it. No single bit makes one the other."""
DRAFT = ".tmp"
"""Ending of files that are still being written: .NAME.RANDOM.tmp."""


def write_bytes(path: str | Path, data: bytes) -> None:
    """Fill a temporary file beside `path`, flush it to disk, then rename it into place.

    An existing file's permissions are kept, and a symbolic link to it stays one. What killed processes left
    half-written under the same name is removed.
    """
    asked = path
    try:
        path = Path(os.path.realpath(path))
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_drafts(path.parent, glob.escape(path.name))
        handle, draft = _new_draft(path)
    except (OSError, ValueError) as error:
        raise FileError(f"cannot write to {Path(asked).parent}: {error}; choose another folder") from error
    try:
        with os.fdopen(handle, "wb") as file:  # closing it ends the lock, too
            file.write(data)
            file.flush()
            os.fsync(handle)
            with suppress(FileNotFoundError):
                os.chmod(draft, path.stat().st_mode & 0o777)
            os.replace(draft, path)
    except OSError as error:
        raise FileError(f"could not write {asked}: {error}; a previous file is untouched") from error
    finally:
        Path(draft).unlink(missing_ok=True)


def remove_drafts(folder: Path, name: str = "*") -> None:
    """Remove what killed processes left half-written in a folder, but nothing that is being written now.

    Args:
        folder: where.
        name: of the files they were to become, as a pattern.
    """
    for draft in folder.glob(f".{name}.{'[0-9a-f]' * 8}{DRAFT}"):
        with suppress(OSError):
            handle = os.open(draft, os.O_RDWR)
            try:
                if _lock(handle, wait=False):
                    draft.unlink()
            finally:
                os.close(handle)


def _new_draft(path: Path) -> tuple[int, str]:
    """A locked, empty file beside `path`, with the permissions of any new file; hidden if it replaces one."""
    mode = 0o600 if path.exists() else 0o666
    while True:
        draft = path.parent / f".{path.name}.{secrets.token_hex(4)}{DRAFT}"
        handle = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)
        _lock(handle, wait=True)
        if draft.exists():  # else another process took it for a leftover before the lock was there
            return handle, str(draft)
        os.close(handle)


if sys.platform == "win32":

    def _lock(handle: int, *, wait: bool) -> bool:
        return wait  # no leftover can be told from a file in use, which Windows does not let go of anyway

else:
    import fcntl

    def _lock(handle: int, *, wait: bool) -> bool:
        """Whether the file is now locked by this process; the system unlocks files of those that die."""
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except OSError:
            return False
        return True


def write_json(path: str | Path, value: object) -> None:
    """Write JSON atomically, readable by people."""
    write_text(path, json.dumps(value, indent=2) + "\n")


def write_text(path: str | Path, text: str) -> None:
    """Write text atomically; half of a surrogate pair, as in names of undecodable files, as its escape."""
    write_bytes(path, text.encode(errors="backslashreplace"))


def write_tensors(path: str | Path, tensors: Mapping[str, Tensor], meta: Mapping[str, str]) -> None:
    """Write tensors with metadata and a SHA-256 of both. `meta["kind"]` says what the file is."""
    kept = {name: t.detach().cpu().contiguous() for name, t in tensors.items()}
    meta = {**meta, "format": SEALED}
    for name, text in meta.items():
        if len(text) > MAX_CHARS:
            raise FileError(
                f"could not write {path}: its {name} has {len(text):,} characters; {MAX_CHARS:,} is the most"
            )
    # Not save_file: it makes a temporary file of its own, which a killed process leaves behind.
    write_bytes(path, save(kept, {**meta, SEAL: seal(kept, meta)}))


def read_tensors(path: str | Path, *, kind: str) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read tensors and metadata of a file that `write_tensors` wrote with this kind.

    Files of 0.1 have no SHA-256; everything else is checked of them, too.
    """
    path = Path(path)
    if not path.is_file():
        raise FileError(f"{path}: no such file")
    try:
        with safe_open(path, framework="pt") as file:
            meta = dict(file.metadata() or {})
            # Before the tensors: their reading can be long, and the wrong kind of file is a common mistake.
            ours = meta.get("format") in (UNSEALED, SEALED)
            if not ours or meta.get("kind") != kind:
                found = (
                    f"an autocl {meta.get('kind', 'file of no kind')}" if ours else "not written by autocl"
                )
                raise FileError(f"{path}: expected an autocl {kind} file, but this one is {found}")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # not a dict
    except FileError:
        raise
    except (SafetensorError, OSError, ValueError, TypeError, RuntimeError, KeyError, AttributeError) as error:
        raise FileError(f"{path}: damaged, truncated or not a safetensors file ({error})") from error
    if meta["format"] == SEALED and meta.pop(SEAL, "") != seal(tensors, meta):
        raise FileError(f"{path}: damaged: its content does not have the SHA-256 it was written with")
    del meta["format"]
    return tensors, meta


def seal(tensors: Mapping[str, Tensor], meta: Mapping[str, str]) -> str:
    """SHA-256 of metadata and of names, dtypes, shapes and bytes of tensors, in hex digits.

    Example:
        >>> seal({"a": torch.zeros(2)}, {}) == seal({"a": torch.zeros(2, 1)}, {})
        False
    """
    digest = hashlib.sha256()
    # JSON, because no text can then be read as two others: ("ab", "c") is not ("a", "bc").
    digest.update(json.dumps(sorted((k, v) for k, v in meta.items() if k != SEAL)).encode())
    for name, t in sorted(tensors.items()):
        digest.update(json.dumps([name, str(t.dtype), list(t.shape)]).encode())
        # A fresh copy, because one of a single element may have any strides. Not all types exist in numpy.
        plain = t.detach().cpu().flatten().clone(memory_format=torch.contiguous_format)
        digest.update(plain.view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def check_tensors(where: str | Path, tensors: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> None:
    """Refuse tensors that lack the names, dtypes, shapes or finiteness of others.

    Args:
        where: the file, for the message.
        tensors: what it holds.
        wanted: the like of it; may lie on the meta device.
    """
    if missing := [*(wanted.keys() - tensors.keys()), *(tensors.keys() - wanted.keys())]:
        name = min(missing)
        raise FileError(f"{where}: {'lacks' if name in wanted else 'holds an unknown'} tensor {name}")
    for name, want in wanted.items():
        t = tensors[name]
        if t.dtype != want.dtype or t.shape != want.shape:
            found, need = (f"{x.dtype} {list(x.shape)}".removeprefix("torch.") for x in (t, want))
            raise FileError(f"{where}: {name} is {found}, but must be {need}")
        if t.is_floating_point() and not bool(torch.isfinite(t).all()):
            raise FileError(f"{where}: {name} holds NaN or infinity")


class Holder(Protocol):
    """A module that says itself which of its weights a file holds."""

    def weights(self) -> dict[str, Tensor]:
        """Those that a file holds, by name."""

    def load_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Take what `weights` gave."""


M = TypeVar("M", bound=Holder)


def load_module(path: Path, *, kind: str, build: Callable[[dict[str, Any]], M]) -> tuple[M, dict[str, str]]:
    """Read a module from a file that holds its weights, and its configuration as JSON in the metadata.

    Args:
        path: the file.
        kind: what it must be.
        build: makes the module of its configuration; called twice, first on the meta device.

    Returns:
        The module, and the file's metadata.
    """
    tensors, meta = read_tensors(path, kind=kind)
    if "config" not in meta:
        raise FileError(f"{path}: lacks its configuration")
    config = parse_json(meta["config"], dict[str, Any], where=f"{path}, config")
    try:
        with torch.device("meta"), _at_most(1000 + 4 * len(tensors)):  # some are made and thrown away
            plan = build(config)
        check_tensors(path, tensors, plan.weights())
        module = build(config)
        module.load_weights(tensors)
    except FileError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RuntimeError) as error:
        # torch says what is wrong in its first two lines
        reason = " ".join(line.strip() for line in str(error).splitlines()[:2])
        raise FileError(f"{path}: the configuration and the weights do not fit: {reason}") from error
    return module, meta


@contextmanager
def _at_most(tensors: int) -> Iterator[None]:
    """Refuse, in this thread, to make modules of more parameters than that."""
    me, made = threading.get_ident(), 0

    def count(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        nonlocal made
        if threading.get_ident() == me:
            made += parameter is not None
            if made > tensors:
                raise InputError("it describes far more tensors than are there")

    handle = register_module_parameter_registration_hook(count)
    try:
        yield
    finally:
        handle.remove()
