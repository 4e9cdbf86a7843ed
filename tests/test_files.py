"""Files appear whole or not at all, and with the permissions that other programs would give them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save

from autocl.errors import FileError
from autocl.files import (
    check_tensors,
    read_tensors,
    remove_drafts,
    write_bytes,
    write_json,
    write_tensors,
    write_text,
)


def test_a_failed_write_leaves_the_old_file_and_no_rubbish(tmp_path, monkeypatch):
    path = tmp_path / "value.json"
    write_json(path, {"a": 1})

    def fail(handle: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(FileError, match="disk full"):
        write_bytes(path, b"new")
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


def test_permissions_and_links_of_an_existing_file_are_kept(tmp_path):
    path, link = tmp_path / "secret.json", tmp_path / "link.json"
    write_json(path, {"a": 1})
    path.chmod(0o600)
    link.symlink_to(path)
    write_json(link, {"a": 2})
    assert link.is_symlink()
    assert json.loads(path.read_text()) == {"a": 2}
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_umask_is_obeyed_and_never_set(tmp_path, monkeypatch):
    before = os.umask(0o077)
    try:
        monkeypatch.setattr(os, "umask", lambda mask: pytest.fail("the umask belongs to all threads"))
        write_json(tmp_path / "x.json", {})
    finally:
        monkeypatch.undo()
        os.umask(before)
    assert (tmp_path / "x.json").stat().st_mode & 0o777 == 0o600


def test_what_killed_writers_left_is_removed_but_nothing_that_is_being_written(tmp_path, monkeypatch):
    killed, other = tmp_path / ".x.json.0123abcd.tmp", tmp_path / ".y.json.0123abcd.tmp"
    mine = tmp_path / ".notes.tmp"
    for file in (killed, other, mine):
        file.write_text("half")

    def meanwhile(handle: int) -> None:
        monkeypatch.undo()
        write_json(tmp_path / "x.json", {"meanwhile": 1})  # another writer of the same file
        remove_drafts(tmp_path)

    monkeypatch.setattr(os, "fsync", meanwhile)
    write_bytes(tmp_path / "x.json", b'{"last": 1}')
    assert json.loads((tmp_path / "x.json").read_text()) == {"last": 1}
    assert sorted(p.name for p in tmp_path.iterdir()) == [".notes.tmp", "x.json"]


def test_a_killed_writer_leaves_nothing_for_long(tmp_path):
    script = (
        "import os, signal, sys; from autocl.files import write_bytes\n"
        "os.fsync = lambda handle: os.kill(os.getpid(), signal.SIGKILL)\n"
        "write_bytes(sys.argv[1], b'half')"
    )
    path = tmp_path / "x.json"
    for _ in range(2):
        subprocess.run([sys.executable, "-c", script, str(path)], check=False, timeout=100)
        assert len(list(tmp_path.iterdir())) == 1
    write_json(path, {})
    assert [p.name for p in tmp_path.iterdir()] == ["x.json"]


def sealed(path: Path) -> bytes:
    values = {
        "w": torch.randn(20, 3),
        "n": torch.tensor(3),
        "h": torch.ones(2, dtype=torch.bfloat16),
        "e": torch.ones(0),
    }
    write_tensors(path, values, {"kind": "state", "note": "été"})
    return path.read_bytes()


def test_every_flipped_bit_is_noticed(tmp_path):
    path = tmp_path / "x.safetensors"
    whole = sealed(path)
    wanted, meta = read_tensors(path, kind="state")
    unnoticed = 0
    for at in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[at // 8] ^= 1 << at % 8
        path.write_bytes(damaged)
        try:
            tensors, found = read_tensors(path, kind="state")
        except FileError:
            continue
        # A letter of a tensor's dtype or of an escape may have two ways to be written; nothing else may.
        unnoticed += 1
        assert found == meta
        assert all(torch.equal(tensors[name], t) for name, t in wanted.items())
    assert unnoticed <= 8


def test_files_of_the_first_format_without_a_check_sum_are_read(tmp_path):
    path = tmp_path / "x.safetensors"
    path.write_bytes(save({"t": torch.ones(2)}, {"format": "autocl", "kind": "state", "note": "a"}))
    tensors, meta = read_tensors(path, kind="state")
    assert meta == {"kind": "state", "note": "a"}
    assert torch.equal(tensors["t"], torch.ones(2))


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({}, "lacks tensor a"),
        ({"a": torch.ones(2, 4), "b": torch.ones(1)}, "unknown tensor b"),
        ({"a": torch.ones(2)}, r"a is float32 \[2\], but must be float32 \[2, 4\]"),
        ({"a": torch.ones(2, 4).double()}, "a is float64"),
        ({"a": torch.full((2, 4), torch.nan)}, "a holds NaN or infinity"),
    ],
)
def test_tensors_unlike_those_wanted_are_named(tensors, message):
    with pytest.raises(FileError, match=message):
        check_tensors("file", tensors, {"a": torch.ones(2, 4)})
    check_tensors("file", {"a": torch.zeros(2, 4)}, {"a": torch.ones(2, 4)})


def test_text_that_is_no_unicode_is_written_with_escapes(tmp_path: Path) -> None:
    write_text(tmp_path / "t.txt", "caf\u00e9 \udc80")
    assert (tmp_path / "t.txt").read_text(encoding="utf-8") == "caf\u00e9 \\udc80"
