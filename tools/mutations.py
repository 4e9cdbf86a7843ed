"""Damage to files: bytes anywhere, values inside JSON, tensors behind an intact check sum."""

import json
import struct
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from safetensors.torch import load, save

from autocl.files import SEAL, seal

Rng = np.random.Generator
Mutate = Callable[[bytes, Rng], bytes]

NASTY: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 3, 7, 10**5, 10**7, 2**31, 2**63, 10**30, -(10**30), 0.5, -0.5, 1e308,
    "", "a", "\0", "\ud800", "x" * 5000, "../../etc/passwd", "/dev/zero", "<script>", "[/bold]", "NaN",
    [], [None], [[]], [0] * 1000, {}, {"a": None}, {"tuple": []}, {"tuple": None}, {"bytes": "!"},
)  # fmt: skip


def bytes_damaged(data: bytes, rng: Rng) -> bytes:
    """Flip bits, overwrite, cut out, repeat, insert or truncate, at one to four places."""
    out = bytearray(data)
    for _ in range(int(rng.integers(1, 5))):
        # Half of the damage within the first kilobyte, where headers are.
        at = int(rng.integers(max(1, min(len(out), 1024) if rng.random() < 0.5 else len(out))))
        size = int(rng.integers(1, 9))
        match int(rng.integers(6)):
            case 0 if out:
                out[at % len(out)] ^= 1 << int(rng.integers(8))
            case 1:
                out[at : at + size] = rng.bytes(size)
            case 2:
                del out[at : at + size]
            case 3:
                out[at:at] = out[at : at + 64 * size]
            case 4:
                out[at:at] = rng.bytes(size)
            case _:
                del out[at:]
    return bytes(out)


def value_damaged(value: Any, rng: Rng) -> Any:
    """A JSON value with one to three of its parts replaced, removed, renamed or nested deeply."""
    value = json.loads(json.dumps(value))
    for _ in range(int(rng.integers(1, 4))):
        holder: Any = {"": value}
        key: Any = ""
        # Go down at random, but rarely stop at the top.
        while isinstance(inner := holder[key], dict | list) and inner and rng.random() < 0.85:
            keys = list(inner) if isinstance(inner, dict) else range(len(inner))
            holder, key = inner, keys[int(rng.integers(len(keys)))]
        top = holder.get("") is value if isinstance(holder, dict) else False
        match int(rng.integers(10)):
            case 0 if not top:
                del holder[key]
            case 1 if not top and isinstance(holder, dict):
                holder[key + "x"] = holder.pop(key)
            case 2 if isinstance(holder[key], list) and holder[key]:
                holder[key] = holder[key] * 2
            case 3:
                holder[key] = [holder[key]]
            case 4 if isinstance(holder[key], int | float):
                holder[key] = holder[key] * int(rng.choice([-1, 0, 10, 1000])) + int(rng.integers(-2, 3))
            case _:
                holder[key] = deepcopy(NASTY[int(rng.integers(len(NASTY)))])
        if top:
            value = holder[""]
    return value


def json_damaged(data: bytes, rng: Rng) -> bytes:
    """A file of JSON, or of a JSON value a line, damaged inside."""
    kind = rng.random()
    if kind < 0.05:
        return b"[" * 100_000
    if kind < 0.1:
        return data.replace(b"1", [b"NaN", b"1e999", b"-Infinity", b"9" * 5000][int(rng.integers(4))], 1)
    try:
        whole = json.loads(data)
    except ValueError:
        lines = data.split(b"\n")
        at = int(rng.integers(max(1, len(lines) - 1)))
        lines[at] = _dump(value_damaged(json.loads(lines[at]), rng))
        return b"\n".join(lines)
    return _dump(value_damaged(whole, rng))


def sealed_damage(data: bytes, rng: Rng) -> bytes:
    """A safetensors file with other metadata or tensors, and the check sum that belongs to them."""
    tensors, meta = load(data), _meta(data)
    names = sorted(tensors)
    match int(rng.integers(8)):
        case 0 if names:
            tensors.pop(names[int(rng.integers(len(names)))])
        case 1 if names:
            name = names[int(rng.integers(len(names)))]
            tensors[name + "x"] = tensors.pop(name)
        case 2 | 3 if names:
            name = names[int(rng.integers(len(names)))]
            tensors[name] = _tensor_damaged(tensors[name], rng)
        case 4:
            key = list(meta)[int(rng.integers(len(meta)))]
            meta[key] = str(NASTY[int(rng.integers(20, len(NASTY)))]).replace("\ud800", "?")
        case 5:
            meta.pop(list(meta)[int(rng.integers(len(meta)))])
        case _:
            texts = [key for key, text in meta.items() if text.startswith(("{", "["))]
            if texts:
                key = texts[int(rng.integers(len(texts)))]
                meta[key] = json_damaged(meta[key].encode(), rng).decode()
    meta[SEAL] = seal(tensors, meta)
    return canonical(save(tensors, meta))


def header_damaged(data: bytes, rng: Rng) -> bytes:
    """A safetensors file whose header, the JSON before the tensors, says something else."""
    (length,) = struct.unpack("<Q", data[:8])
    header = json_damaged(data[8 : 8 + length], rng)
    return struct.pack("<Q", len(header)) + header + data[8 + length :]


def canonical(data: bytes) -> bytes:
    """A safetensors file with a sorted header: safetensors writes metadata in an order that changes."""
    (length,) = struct.unpack("<Q", data[:8])
    header = json.dumps(json.loads(data[8 : 8 + length]), sort_keys=True).encode()
    header += b" " * (-len(header) % 8)
    return struct.pack("<Q", len(header)) + header + data[8 + length :]


def _tensor_damaged(t: torch.Tensor, rng: Rng) -> torch.Tensor:
    t = t.clone()
    match int(rng.integers(7)):
        case 0:
            return t.flatten()
        case 1:
            return t[None]
        case 2:
            return t[:0] if t.dim() else t[None]
        case 3:
            return t.sum() if t.is_floating_point() else t
        case 4:
            return t.double() if t.is_floating_point() else t.float()
        case 5:
            return t.to(torch.bfloat16)
    if t.numel():
        bad = [float("nan"), float("inf"), 3e38, -1e30, 1e-40, 0.0][int(rng.integers(6))]
        t.view(-1)[int(rng.integers(t.numel()))] = bad if t.is_floating_point() else int(rng.integers(-9, 99))
    return t


def _meta(data: bytes) -> dict[str, str]:
    (length,) = struct.unpack("<Q", data[:8])
    meta: dict[str, str] = json.loads(data[8 : 8 + length])["__metadata__"]
    return meta


def _dump(value: Any) -> bytes:
    return json.dumps(value).encode()
