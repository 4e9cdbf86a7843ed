"""Data out of pickle files without running them.

A pickle is a program for a small stack machine. This one knows the instructions that build dictionaries,
lists, numbers, strings and numpy arrays, and no others: nothing is imported, nothing is called, and any
other instruction or name ends the reading. Long byte strings are not copied: an array made from one is
read from the file piece by piece (`StoredArray.rows`), so a file larger than memory can be opened.
"""

import mmap
import pickle as op  # for the names of the instructions; nothing is ever loaded with it
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

_LONG = 4096
"""Byte strings longer than this stay in the file."""


@dataclass(frozen=True)
class StoredArray:
    """A C-ordered array of unsigned bytes inside a file."""

    path: Path
    offset: int
    shape: tuple[int, ...]

    def rows(self, start: int, stop: int) -> npt.NDArray[np.uint8]:
        """Rows start:stop, read from the file: [stop − start, …]."""
        width = int(np.prod(self.shape[1:], dtype=np.int64))
        stop = min(stop, self.shape[0])
        flat = np.fromfile(self.path, np.uint8, (stop - start) * width, offset=self.offset + start * width)
        return flat.reshape(stop - start, *self.shape[1:])


@dataclass
class _Array:
    """An array whose content comes with a later instruction; the memo may refer to it before."""

    value: Any = None


@dataclass(frozen=True)
class _Extent:
    """A byte string left in the file."""

    offset: int
    length: int


@dataclass(frozen=True)
class _Name:
    """A global the program mentions: it stands for what we do ourselves when it is called."""

    role: str


_NAMES = {
    "_reconstruct": "array",
    "ndarray": "ndarray",
    "dtype": "dtype",
    "_frombuffer": "frombuffer",
    "encode": "encode",
}
_MODULES = {
    "numpy", "numpy.core.multiarray", "numpy._core.multiarray", "numpy.core.numeric", "numpy._core.numeric",
    "_codecs",
}  # fmt: skip


def read_pickle(path: Path) -> Any:
    """The value a pickle file (protocol 1 to 5) describes, with string keys and values of plain types.

    Byte strings of Python 2 used as dictionary keys become text. Raises whatever damaged bytes lead to:
    the caller, who knows what the file should be, says it with `reading`.
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return _finished(_Machine(content, path).run())


def _finished(value: Any) -> Any:
    if isinstance(value, dict):
        return {_text(key): _finished(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finished(item) for item in value]
    return value.value if isinstance(value, _Array) else value


def _text(value: Any) -> Any:
    return value.decode("latin1") if isinstance(value, bytes) else value


class _Machine:
    """Stack, marks, memo and position of one run."""

    def __init__(self, content: mmap.mmap, path: Path) -> None:
        self.content, self.path, self.at = content, path, 0
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}

    def number(self, format: str) -> Any:
        size = struct.calcsize(format)
        return struct.unpack(format, self.raw(size))[0]

    def raw(self, size: int) -> bytes:
        if size < 0 or self.at + size > len(self.content):
            raise EOFError(f"it ends inside an instruction at byte {self.at}")
        self.at += size
        return self.content[self.at - size : self.at]

    def line(self) -> str:
        end = self.content.find(b"\n", self.at)
        return self.raw(end + 1 - self.at)[:-1].decode()

    def string(self, size: int) -> bytes | _Extent:
        if size <= _LONG or self.at + size > len(self.content):
            return self.raw(size)
        self.at += size
        return _Extent(self.at - size, size)

    def since_mark(self) -> list[Any]:
        mark = self.marks.pop()
        items = self.stack[mark:]
        del self.stack[mark:]
        return items

    def run(self) -> Any:
        while (code := self.raw(1)) != op.STOP:
            self.step(code)
        return self.stack.pop()

    def step(self, code: bytes) -> None:
        push, pop = self.stack.append, self.stack.pop
        match code:
            case op.PROTO:
                self.raw(1)
            case op.FRAME:
                self.raw(8)
            case op.MARK:
                self.marks.append(len(self.stack))
            case op.NONE:
                push(None)
            case op.NEWTRUE | op.NEWFALSE:
                push(code == op.NEWTRUE)
            case op.BININT | op.BININT1 | op.BININT2:
                push(self.number({op.BININT: "<i", op.BININT1: "<B", op.BININT2: "<H"}[code]))
            case op.LONG1:
                push(int.from_bytes(self.raw(self.number("<B")), "little", signed=True))
            case op.BINFLOAT:
                push(self.number(">d"))
            case op.SHORT_BINSTRING | op.SHORT_BINBYTES:
                push(self.string(self.number("<B")))
            case op.BINSTRING | op.BINBYTES:
                push(self.string(self.number("<I")))
            case op.BINBYTES8 | op.BYTEARRAY8:
                push(self.string(self.number("<Q")))
            case op.SHORT_BINUNICODE:
                push(self.raw(self.number("<B")).decode())
            case op.BINUNICODE:
                push(self.raw(self.number("<I")).decode())
            case op.EMPTY_DICT:
                push({})
            case op.EMPTY_LIST:
                push([])
            case op.EMPTY_TUPLE:
                push(())
            case op.TUPLE:
                push(tuple(self.since_mark()))
            case op.TUPLE1 | op.TUPLE2 | op.TUPLE3:
                size = {op.TUPLE1: 1, op.TUPLE2: 2, op.TUPLE3: 3}[code]
                items = tuple(self.stack[-size:])
                del self.stack[-size:]
                push(items)
            case op.APPEND:
                item = pop()
                self.stack[-1].append(item)
            case op.APPENDS:
                items = tuple(self.since_mark())
                self.stack[-1].extend(items)
            case op.SETITEM:
                item, key = pop(), pop()
                self.stack[-1][key] = item
            case op.SETITEMS:
                pairs = self.since_mark()
                self.stack[-1].update(zip(pairs[::2], pairs[1::2], strict=True))
            case op.BINPUT:
                self.memo[self.number("<B")] = self.stack[-1]
            case op.LONG_BINPUT:
                self.memo[self.number("<I")] = self.stack[-1]
            case op.MEMOIZE:
                self.memo[len(self.memo)] = self.stack[-1]
            case op.BINGET:
                push(self.memo[self.number("<B")])
            case op.LONG_BINGET:
                push(self.memo[self.number("<I")])
            case op.GLOBAL:
                module = self.line()
                push(self.named(module, self.line()))
            case op.STACK_GLOBAL:
                name, module = pop(), pop()
                push(self.named(module, name))
            case op.REDUCE:
                arguments, function = pop(), pop()
                push(self.called(function, arguments))
            case op.BUILD:
                state = pop()
                self.stack[-1] = self.built(self.stack[-1], state)
            case _:
                raise ValueError(f"instruction {code!r} at byte {self.at - 1} has no place in a data file")

    def named(self, module: str, name: str) -> _Name:
        if module not in _MODULES or name not in _NAMES:
            raise ValueError(f"it mentions {module}.{name}, which has no place in a data file")
        return _Name(_NAMES[name])

    def called(self, function: Any, arguments: tuple[Any, ...]) -> Any:
        match function:
            case _Name("array"):
                return _Array()
            case _Name("dtype"):
                dtype = np.dtype(_text(arguments[0]))
                if dtype.kind not in "uif":
                    raise ValueError(f"it holds an array of {dtype}, not of numbers")
                return dtype
            case _Name("encode"):
                return arguments[0].encode("latin1")
            case _Name("frombuffer"):
                data, dtype, shape, layout = arguments
                return _Array(self.array(shape, dtype, layout == "F", data))
        raise ValueError("it calls something that is no function")

    def built(self, target: Any, state: tuple[Any, ...]) -> Any:
        if isinstance(target, np.dtype):
            # (version, byte order, …); the byte order of single bytes is "|".
            return target.newbyteorder(_text(state[1])) if _text(state[1]) in "<>" else target
        if not isinstance(target, _Array):
            raise ValueError("it sets the state of something that is no array")
        _, shape, dtype, fortran, data = state
        target.value = self.array(shape, dtype, fortran, data)
        return target

    def array(self, shape: Any, dtype: Any, fortran: Any, data: Any) -> Any:
        shape = tuple(int(size) for size in shape)
        length = data.length if isinstance(data, _Extent) else len(data)
        if not isinstance(dtype, np.dtype) or min(shape, default=1) < 0:
            raise ValueError("an array has no valid type or shape")
        if length != int(np.prod(shape, dtype=object)) * dtype.itemsize:
            raise ValueError(f"an array {list(shape)} of {dtype} cannot have {length} bytes")
        if isinstance(data, _Extent):
            if dtype == np.uint8 and not fortran:
                return StoredArray(self.path, data.offset, shape)
            data = self.content[data.offset : data.offset + data.length]
        return np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C")
