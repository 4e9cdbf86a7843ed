"""Files appear whole or not at all, and with the permissions that other programs would give them."""

import json

import pytest
import torch

from autocl.errors import FileError
from autocl.files import read_tensors, write_atomic, write_json, write_tensors


def test_a_failed_write_leaves_the_old_file_and_no_rubbish(tmp_path):
    path = tmp_path / "value.json"
    write_json(path, {"a": 1})

    def fail(name: str) -> None:
        raise OSError("disk full")

    with pytest.raises(FileError, match="disk full"):
        write_atomic(path, fail)
    assert json.loads(path.read_text()) == {"a": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["value.json"]


def test_files_have_ordinary_permissions(tmp_path):
    plain = tmp_path / "plain"
    plain.write_text("")
    write_json(tmp_path / "ours", {})
    assert (tmp_path / "ours").stat().st_mode == plain.stat().st_mode


def test_an_unwritable_folder_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="cannot write to"):
        write_json(tmp_path / "file" / "inside.json", {})


def test_kind_is_checked(tmp_path):
    write_tensors(tmp_path / "x.safetensors", {"t": torch.ones(2)}, {"kind": "state"})
    tensors, meta = read_tensors(tmp_path / "x.safetensors", kind="state")
    assert torch.equal(tensors["t"], torch.ones(2))
    assert meta["kind"] == "state"
    with pytest.raises(FileError, match="expected an autocl learner file, but this one is an autocl state"):
        read_tensors(tmp_path / "x.safetensors", kind="learner")
