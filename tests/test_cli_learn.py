"""`autocl learn` and `autocl predict`, as somebody uses them who writes no Python."""

import contextlib
import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from autocl import ContinualClassifier
from autocl.cli import learn as command
from autocl.cli.main import main
from autocl.errors import FileError
from autocl.estimator import folder
from autocl.estimator.folder import FileLearner, Picture, list_pictures, new_pictures


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def picture(path: Path, kind: int, seed: int) -> Path:
    """A noisy image of stripes that lie (0), stand (1) or cross (2)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    y, x = np.mgrid[:32, :32] // 4 % 2
    pixels = np.random.default_rng(seed).integers(0, 60, (32, 32)) + 180 * [y, x, x ^ y][kind]
    Image.fromarray(pixels.astype(np.uint8)).save(path)
    return path


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    top = tmp_path / "photos"
    for kind, label in enumerate(("lying", "standing")):
        for i in range(4):
            picture(top / label / f"{i}.png", kind, seed=10 * kind + i)
    (top / "lying" / "notes.txt").write_text("not an image")
    return top


def failure(capsys: pytest.CaptureFixture[str], *args: object) -> str:
    with pytest.raises(SystemExit) as end:
        main([str(a) for a in args])
    assert end.value.code == 2
    return capsys.readouterr().err


def test_learn_then_predict_in_each_format(
    photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    state, new = tmp_path / "s.safetensors", picture(tmp_path / "[b]new.png", 1, seed=99)
    main(["learn", str(photos), "--state", str(state)])
    assert f"learned 8 images; {state} knows 2 classes from 8" in capsys.readouterr().out
    main(["predict", str(state), str(new)])
    heading, line = capsys.readouterr().out.splitlines()
    assert heading.split() == ["file", "label", "confidence"]
    assert line.split()[:2] == [str(new), "standing"]
    main(["predict", str(state), str(photos / "lying"), str(new), "--format", "csv"])
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["label"] for row in rows] == ["lying"] * 4 + ["standing"]
    main(["predict", str(state), str(new), "--format", "json", "--unknown", "0.9"])
    (said,) = json.loads(capsys.readouterr().out)
    clf = ContinualClassifier.load(state)
    assert said["file"] == str(new)
    assert said["confidence"] == pytest.approx(clf.predict_proba([new]).max(), abs=1e-4)
    assert 0 <= said["novelty"] <= 1
    assert said["unknown"] == (said["novelty"] > 0.9)


def test_again_learns_only_what_is_new_and_equals_learning_at_once(
    photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "s.safetensors"
    main(["learn", str(photos), "--state", str(state)])
    first = state.read_bytes()
    main(["learn", str(photos), "--state", str(state)])
    assert "learned 0 images, 8 known before" in capsys.readouterr().out
    assert state.read_bytes() == first
    (photos / "standing" / "0.png").rename(photos / "standing" / "renamed.png")
    late = [picture(tmp_path / f"x{i}.png", 2, seed=30 + i) for i in range(2)]
    main(["learn", str(photos), "--state", str(state)])
    main(["learn", *map(str, late), "--label", "crossing", "--state", str(state)])
    assert "learned 2 images;" in capsys.readouterr().out
    at_once = ContinualClassifier("everyday").fit(
        [f"{photos}/{p}" for i in range(4) for p in (f"lying/{i}.png", f"standing/{i or 'renamed'}.png")]
        + late,
        ["lying", "standing"] * 4 + ["crossing"] * 2,
    )
    loaded = ContinualClassifier.load(state)
    assert loaded.n_seen_ == 10
    assert np.array_equal(loaded.predict_proba(late), at_once.predict_proba(late))


def test_stopped_at_any_batch_goes_on_where_it_was(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(folder, "BATCH", 3)
    whole, parts = tmp_path / "whole.safetensors", tmp_path / "parts.safetensors"
    FileLearner(whole).learn(list_pictures([photos]))
    real, calls = FileLearner._fit, []

    def interrupted(self: FileLearner, batch: dict[str, Picture]) -> None:
        calls.append(len(batch))
        if len(calls) == 2:
            raise KeyboardInterrupt
        real(self, batch)

    monkeypatch.setattr(FileLearner, "_fit", interrupted)
    with pytest.raises(SystemExit) as end:
        main(["learn", str(photos), "--state", str(parts)])
    assert end.value.code == 130
    assert "the same command goes on" in capsys.readouterr().err
    main(["learn", str(photos), "--state", str(parts)])
    assert "learned 5 images, 3 known before" in capsys.readouterr().out
    a, b = ContinualClassifier.load(whole), ContinualClassifier.load(parts)
    assert all(torch.equal(t, b.state_.tensors[name]) for name, t in a.state_.tensors.items())


def test_damaged_files_are_named_and_the_others_learned(
    photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state, bad = tmp_path / "s.safetensors", photos / "standing" / "9.png"
    bad.write_bytes((photos / "standing" / "1.png").read_bytes()[:200])
    error = failure(capsys, "learn", photos, "--state", state)
    assert f"{bad}: not an image" in error
    assert error.endswith("autocl: 1 of 9 files are no images or damaged: see above\n")
    assert ContinualClassifier.load(state).n_seen_ == 8
    with pytest.raises(SystemExit) as end:
        main(["predict", str(state), str(photos / "standing"), "--format", "csv"])
    captured = capsys.readouterr()
    assert end.value.code == 2
    assert len(captured.out.splitlines()) == 1 + 4
    assert captured.err == f"autocl: no images, or damaged ones: {bad}\n"


def test_mistakes_are_one_line(photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = tmp_path / "s.safetensors"
    file = photos / "lying" / "0.png"
    for words, said in (
        (["learn", tmp_path / "nowhere", "--state", state], "no such file or folder"),
        (["learn", file, "--state", state], "--label NAME"),
        (["learn", photos / "lying", "--state", state], "sort them into a folder per class"),
        (["learn", "--state", state], "nothing to learn"),
        (["learn", photos, "--state", state, "--learner", "evryday"], "did you mean 'everyday'?"),
        (["predict", state, file], "no such file"),
    ):
        error = failure(capsys, *words)
        assert said in error
        assert error.count("\n") == 1
    main(["learn", str(photos), "--state", str(state)])
    assert "learned with learner" in failure(capsys, "learn", photos, "--state", state, "--learner", "quick")
    assert "nothing to predict" in failure(capsys, "predict", state)
    assert not (tmp_path / "nowhere").exists()


def test_two_programs_do_not_overwrite_each_other(photos: Path, tmp_path: Path) -> None:
    state = tmp_path / "s.safetensors"
    one, other = FileLearner(state), FileLearner(state)
    pictures = list_pictures([photos])
    one.learn(pictures[:4])
    with pytest.raises(FileError, match="another program"):
        other.learn(pictures)
    assert ContinualClassifier.load(state).n_seen_ == 4


def looks(*each: Callable[[], object]) -> Callable[[float], None]:
    """A sleep in which something happens each time, and then Ctrl-C."""
    todo = list(each)

    def sleep(_: float) -> None:
        if not todo:
            raise KeyboardInterrupt
        todo.pop(0)()

    return sleep


def test_watching_waits_until_a_file_is_whole(photos: Path) -> None:
    late, given = photos / "crossing" / "late.png", []
    whole = picture(late, 2, seed=1).read_bytes()
    late.write_bytes(whole[:100])
    sleep = looks(lambda: late.write_bytes(whole[:300]), lambda: late.write_bytes(whole), *[lambda: None] * 3)
    with contextlib.suppress(KeyboardInterrupt):
        for found in new_pictures(lambda: list_pictures([photos]), sleep=sleep):
            given.append({p.path for p in found})
    assert len(given) == 2
    assert len(given[0]) == 8
    assert given[1] == {late}


def test_watch_learns_what_arrives_and_ends_with_ctrl_c(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "s.safetensors"
    sleep = looks(
        lambda: None, lambda: picture(photos / "crossing" / "a.png", 2, seed=5), lambda: None, lambda: None
    )
    monkeypatch.setattr(command, "new_pictures", lambda find: new_pictures(find, sleep=sleep))
    main(["learn", str(photos), "--state", str(state), "--watch"])
    out = capsys.readouterr().out
    assert "learned 8 images" in out
    assert "learned 1 images" in out
    assert f"everything learned is in {state}" in out
    assert "crossing" in ContinualClassifier.load(state).classes_
