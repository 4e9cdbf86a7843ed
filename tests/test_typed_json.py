"""JSON of any content is a value of the stated form, or a FileError that names the place."""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, NotRequired, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autocl.errors import FileError, InputError
from autocl.typed_json import MAX_DEPTH, parse_json, read_json, read_json_lines

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


class Entry(TypedDict):
    name: str
    counts: list[int]
    pair: tuple[int, float] | None
    kind: Literal["a", "b"]
    note: NotRequired[str]


WHOLE = '{"name": "x", "counts": [1, 2], "pair": [1, 2], "kind": "a", "more": 1}'


@dataclass(frozen=True, kw_only=True)
class Part:
    name: str
    size: float = 1.0

    def __post_init__(self) -> None:
        if self.size < 0:
            raise InputError(f"size {self.size} is negative")


def test_a_dataclass_is_made_of_what_it_knows():
    text = '{"parts": [{"name": "x", "more": 1}, {"name": "y", "size": 2}]}'
    assert parse_json(text, Mapping[str, list[Part]], where="file") == {
        "parts": [Part(name="x"), Part(name="y", size=2)]
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"size": 1}', "file: it lacks name"),
        ('{"name": 1}', "file: name must be text, found 1"),
        ('{"name": "x", "size": -1}', "file: it: size -1 is negative"),
        ("[]", "file: it must be an object"),
    ],
)
def test_what_makes_no_dataclass_is_refused(text, message):
    with pytest.raises(FileError, match=message):
        parse_json(text, Part, where="file")


def test_a_whole_value_comes_back_with_tuples():
    read = parse_json(WHOLE, Entry, where="file")
    assert read == {"name": "x", "counts": [1, 2], "pair": (1, 2), "kind": "a", "more": 1}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"x"', "1", "file: name must be text, found 1"),
        ("[1, 2], ", "[1, true], ", r"file: counts\[1\] must be an integer, found True"),
        ("[1, 2], ", "[1, 2.0], ", r"file: counts\[1\] must be an integer"),
        ("[1, 2], ", f"[{10**30}], ", r"file: counts\[0\] must be an integer"),
        ('"pair": [1, 2]', '"pair": [1]', "file: pair must be"),
        ('"a"', '"c"', "file: kind must be one of"),
        ('"name": "x", ', "", "file: it lacks name"),
        ("[1, 2], ", "NaN, ", "NaN is not a number"),
        ("[1, 2], ", "1e999, ", "1e999 is too large"),
        ("[1, 2], ", "9" * 5000 + ", ", "damaged"),
        (WHOLE, "[" * 100_000, "nested too deeply"),
        (WHOLE, "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), "nested too deeply"),
        (WHOLE, "{", "damaged"),
        (WHOLE, "[]", "it must be an object, found a list of 0"),
        (WHOLE, "[" + "0," * 2**23 + "0]", "characters"),
    ],
)
def test_anything_else_is_refused_by_its_place(old, new, message):
    with pytest.raises(FileError, match=message):
        parse_json(WHOLE.replace(old, new), Entry, where="file")


@given(JSON, st.sampled_from([Entry, dict[str, float], list[int], dict[str, list[str]], Any]))
def test_every_json_value_is_taken_or_refused(value, form):
    text, again = json.dumps(value), None
    with suppress(FileError):
        again = parse_json(text, form, where="file")
    assert again is None or json.dumps(again) == text


def test_files(tmp_path):
    path = tmp_path / "x.json"
    with pytest.raises(FileError, match="no such file"):
        read_json(path, Entry)
    path.write_bytes(b'{"name": "\xff"}')
    with pytest.raises(FileError, match="not UTF-8"):
        read_json(path, Entry)


def test_a_torn_last_line_is_left_out_and_others_are_named(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text('{"a": 1}\n\n{"a": 2}\n{"a": ')
    assert read_json_lines(path, dict[str, int]) == [{"a": 1}, {"a": 2}]
    path.write_text('{"a": 1}\n{"a": \n{"a": 2}\n')
    with pytest.raises(FileError, match="line 2"):
        read_json_lines(path, dict[str, int])
    path.write_text('{"a": 1}\n{"a": 2}')  # as an editor may leave it
    assert read_json_lines(path, dict[str, int]) == [{"a": 1}, {"a": 2}]
