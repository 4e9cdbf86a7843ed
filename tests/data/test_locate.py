"""Where files are looked for, and what is said when they are not there."""

import shutil
from pathlib import Path

import pytest
from miniature_archives import MINIATURES

from autocl.data import load, locate
from autocl.data.catalog import CATALOG, DataFile, describe
from autocl.errors import DataError, InputError


@pytest.fixture(autouse=True)
def _nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOCL_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("AUTOCL_DATA", raising=False)
    monkeypatch.setattr(locate, "_shared_folders", lambda: iter([tmp_path / "shared"]))


def _put(folder: Path, id: str) -> None:
    folder.mkdir(parents=True)
    next(m for m in MINIATURES if m.id == id).write(folder)


def test_order_of_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = describe("mnist")
    places = {
        "cache": tmp_path / "cache" / "files" / "mnist",
        "shared": tmp_path / "shared" / "mnist",
        "named": tmp_path / "named" / "mnist",
        "root": tmp_path / "root" / "mnist",
    }
    (tmp_path / "named").mkdir()
    monkeypatch.setenv("AUTOCL_DATA", str(tmp_path / "named"))
    assert locate.locate(info, "train") is None
    for place in ("cache", "shared", "named"):
        _put(places[place], "mnist")
        found = locate.locate(info, "train")
        assert found is not None
        assert {path.parent for path in found[1].values()} == {places[place]}
    _put(places["root"], "mnist")
    found = locate.locate(info, "train", root=tmp_path / "root")
    assert found is not None
    assert set(found[1]) == {"train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"}
    # The set's own folder is a root, too.
    assert locate.locate(info, "train", root=places["root"]) is not None


def test_shared_folder_beside_the_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    (tmp_path / "shared" / "data").mkdir(parents=True)
    (tmp_path / "work" / "deep").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "work" / "deep")
    assert tmp_path / "shared" / "data" in list(locate._shared_folders())


def test_official_form_is_preferred(tmp_path: Path) -> None:
    for id in ("cifar10 strips", "cifar10 binary"):
        _put(tmp_path / id, id)
        shutil.copytree(tmp_path / id, tmp_path / "both", dirs_exist_ok=True)
    assert "20,000" in load("cifar10", root=tmp_path / "cifar10 strips").notes
    assert load("cifar10", root=tmp_path / "both").notes == ""


def test_fc100_and_cifar100_share_files(tmp_path: Path) -> None:
    _put(tmp_path / "shared" / "cifar100", "fc100 binary")
    assert load("fc100", "val").n_classes == 20
    assert load("cifar100", "test").n_classes == 100
    assert locate.download_folder(CATALOG["fc100"]) == locate.download_folder(CATALOG["cifar100"])


def test_files_of_another_set_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MNIST, Fashion-MNIST and notMNIST have the same file names."""
    _put(tmp_path / "root" / "fashion_mnist", "mnist")
    image = tmp_path / "root" / "fashion_mnist" / "train-images-idx3-ubyte.gz"
    real = locate.verdict
    official = CATALOG["mnist"].layouts[0].files[0]

    def verdict(file: DataFile, path: Path) -> str:
        return "official" if (file, path) == (official, image) else real(file, path)

    monkeypatch.setattr(locate, "verdict", verdict)
    with pytest.raises(DataError, match=r"is a file of MNIST, not of Fashion-MNIST"):
        load("fashion_mnist", root=tmp_path / "root")


def test_missing_files_say_what_to_put_where(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    with pytest.raises(DataError) as caught:
        load("omniglot", root=tmp_path / "root")
    message = str(caught.value)
    assert "images_background.zip and images_evaluation.zip" in message
    assert str(tmp_path / "root" / "omniglot") in message
    assert "https://" in message


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"name": "mnits"}, "'mnits'.*mnist"),
        ({"name": "mnist", "split": "validation"}, "'validation'.*train, test"),
        ({"name": "mnist", "root": "/does/not/exist"}, "/does/not/exist"),
        ({"name": "mnist", "rotations": True}, "no option 'rotations'"),
        ({"name": "omniglot", "rotations": 1}, "rotations=1.*bool"),
        ({"name": "mnist", "size": 0}, "size=0"),
        ({"name": "mnist", "channels": 2}, "channels=2"),
        ({"name": "mnist", "statistics": "imagenet"}, "statistics='imagenet'"),
        ({"name": "glyphs", "classes": 0}, "classes=0"),
        ({"name": "glyphs", "seed": -1}, "seed=-1"),
    ],
)
def test_bad_arguments(arguments: dict[str, object], words: str) -> None:
    with pytest.raises((DataError, InputError), match=words):
        load(**arguments)


def test_bad_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOCL_DATA", "/does/not/exist")
    with pytest.raises(DataError, match="AUTOCL_DATA='/does/not/exist'"):
        load("mnist")


def test_catalogue_is_complete() -> None:
    for info in CATALOG.values():
        assert info.licence
        assert info.citation
        assert len(info.mean) == len(info.std) == info.channels
        assert (info.make is None) == bool(info.layouts)
        for layout in info.layouts:
            for file in layout.files:
                assert not file.urls or file.md5 or file.sha256, f"{file.name} could not be verified"
            for split in info.splits:
                assert layout.files_for(split)
