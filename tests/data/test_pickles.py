"""Pickles are read, never run."""

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autocl.data.readers.pickles import StoredArray, read_pickle


def _read(tmp_path: Path, data: bytes) -> Any:
    path = tmp_path / "x.pkl"
    path.write_bytes(data)
    return read_pickle(path)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("dtype", ["uint8", "int64", ">i4", "float32"])
@pytest.mark.parametrize("length", [3, 4000])
def test_arrays(protocol: int, dtype: str, length: int, tmp_path: Path) -> None:
    array = np.arange(length * 2).astype(dtype).reshape(length, 2)
    for value in (array, np.asfortranarray(array)):
        read = _read(tmp_path, pickle.dumps({"x": value, "again": [value, value]}, protocol))
        for found in (read["x"], *read["again"]):
            got = found.rows(0, length) if isinstance(found, StoredArray) else found
            np.testing.assert_array_equal(got, array)


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(value=plain, protocol=st.integers(2, 5))
def test_plain_values(value: Any, protocol: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "plain.pkl"
    path.write_bytes(pickle.dumps(value, protocol))
    assert read_pickle(path) == value


class Malicious:
    def __reduce__(self) -> Any:
        return os.system, ("touch /tmp/autocl-was-here",)


class Evil:
    def __reduce__(self) -> Any:
        return eval, ("1 + 1",)


@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
@pytest.mark.parametrize("value", [Malicious(), Evil(), {"data": Evil()}, np.array([None], object), {1, 2}])
def test_nothing_else_is_made(value: Any, protocol: int, tmp_path: Path) -> None:
    with pytest.raises((ValueError, TypeError, IndexError)):
        _read(tmp_path, pickle.dumps(value, protocol))
    assert not Path("/tmp/autocl-was-here").exists()


def test_an_array_must_have_the_bytes_its_shape_needs(tmp_path: Path) -> None:
    data = pickle.dumps(np.zeros((4, 4), np.uint8), 3)
    assert data.count(b"K\x04K\x04") == 1
    with pytest.raises(ValueError, match="cannot have 16 bytes"):
        _read(tmp_path, data.replace(b"K\x04K\x04", b"K\x04K\x05"))
