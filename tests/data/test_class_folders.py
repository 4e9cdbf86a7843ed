"""A git repository of pictures becomes a folder of class folders."""

import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image
from tools import class_folders


def test_the_first_pictures_of_each_class_shrunk_and_from_the_named_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = tmp_path / "repo"
    for part, n in (("test", 2), ("train", 3)):
        for label in ("a bird", "käfer"):
            (repository / part / label).mkdir(parents=True)
            for i in range(n):
                Image.new("RGB", (60 + i, 40), (i, 0, 0)).save(repository / part / label / f"{i}.png")
    (repository / "README.md").write_text("pictures")
    for command in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "x"],
    ):
        subprocess.run(["git", "-C", str(repository), *command], check=True)
    args = ["class_folders", str(repository), str(tmp_path / "out"), "--per-class", "3", "--pixels", "20"]
    monkeypatch.setattr(sys, "argv", args)
    class_folders.main()
    made = sorted(p.relative_to(tmp_path / "out").as_posix() for p in (tmp_path / "out").rglob("*.jpg"))
    names = ("test-0.jpg", "test-1.jpg", "train-0.jpg")
    assert made == [f"{label}/{name}" for label in ("a bird", "käfer") for name in names]
    with Image.open(tmp_path / "out" / "käfer" / "train-0.jpg") as picture:
        assert picture.size == (30, 20)
