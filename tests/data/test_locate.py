"""Files searched for, and the downloader against a server on this machine that behaves badly on purpose."""

import hashlib
import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from miniature_archives import MINIATURES

from autocl.data import load, locate
from autocl.data.catalog import CATALOG, DataFile, describe
from autocl.data.locate import download
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


BODY = np.random.default_rng(0).bytes(300_000)


class Server(ThreadingHTTPServer):
    """Serves BODY under paths that name its manners."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[tuple[str, str | None]] = []

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server_port}/{path}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        manner, wanted = self.path.strip("/"), self.headers.get("Range")
        self.server.requests.append((manner, wanted))
        if manner == "missing":
            self.send_error(404)
            return
        body = BODY[:-1] + b"?" if manner == "wrong" else BODY
        start = 0
        if wanted and manner != "no-range":
            start = int(wanted.removeprefix("bytes=").rstrip("-"))
            if start >= len(body):
                self.send_error(416)
                return
            start = 0 if manner == "lying" else start
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        # "breaks" hangs up after a part each time; continuing gets there in the end.
        stop = start + 110_000 if manner in ("breaks", "breaks-once") else len(body)
        if manner == "breaks-once" and len(self.server.requests) > 1:
            stop = len(body)
        self.wfile.write(body[start:stop])

    def log_message(self, *args: object) -> None:
        """Be quiet."""


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield running
    running.shutdown()
    running.server_close()
    thread.join()


def _file(server: Server, *manners: str) -> DataFile:
    sha = hashlib.sha256(BODY).hexdigest()
    return DataFile(name="x.bin", sha256=sha, urls=tuple(server.url(manner) for manner in manners))


def test_whole(server: Server, tmp_path: Path) -> None:
    target = tmp_path / "deep" / "x.bin"
    assert download(_file(server, "good"), target) == target
    assert target.read_bytes() == BODY
    assert {path.name for path in target.parent.iterdir()} == {"x.bin", "x.bin.lock"}
    download(_file(server, "good"), target)
    assert len(server.requests) == 1, "a file in place is not fetched again"


def test_md5_is_enough(server: Server, tmp_path: Path) -> None:
    file = DataFile(name="x.bin", md5=hashlib.md5(BODY).hexdigest(), urls=(server.url("good"),))
    assert download(file, tmp_path / "x.bin").read_bytes() == BODY


def test_continues_after_each_break(server: Server, tmp_path: Path) -> None:
    assert download(_file(server, "breaks"), tmp_path / "x.bin").read_bytes() == BODY
    assert [wanted for _, wanted in server.requests] == [None, "bytes=110000-", "bytes=220000-"]


def test_continues_an_earlier_run(server: Server, tmp_path: Path) -> None:
    (tmp_path / "x.bin.part").write_bytes(BODY[:1234])
    assert download(_file(server, "good"), tmp_path / "x.bin").read_bytes() == BODY
    assert server.requests == [("good", "bytes=1234-")]


@pytest.mark.parametrize("manner", ["no-range", "lying"])
def test_starts_over_where_it_cannot_continue(manner: str, server: Server, tmp_path: Path) -> None:
    (tmp_path / "x.bin.part").write_bytes(BODY[:1234])
    assert download(_file(server, manner), tmp_path / "x.bin").read_bytes() == BODY


@pytest.mark.parametrize("left", [BODY[:50] + b"junk" + BODY[54:900], BODY + b"more", BODY])
def test_a_strange_part_file_does_no_harm(left: bytes, server: Server, tmp_path: Path) -> None:
    (tmp_path / "x.bin.part").write_bytes(left)
    assert download(_file(server, "good"), tmp_path / "x.bin").read_bytes() == BODY


def test_wrong_bytes_are_refused_and_the_mirror_is_asked(server: Server, tmp_path: Path) -> None:
    assert download(_file(server, "wrong", "missing", "good"), tmp_path / "x.bin").read_bytes() == BODY
    assert [manner for manner, _ in server.requests] == ["wrong", "missing", "good"]


def test_damaged_file_in_place_is_replaced(server: Server, tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(BODY[:-1])
    assert download(_file(server, "good"), tmp_path / "x.bin").read_bytes() == BODY


def test_no_address_works(server: Server, tmp_path: Path) -> None:
    target = tmp_path / "x.bin"
    with pytest.raises(DataError) as caught:
        download(_file(server, "wrong", "missing"), target)
    message = str(caught.value)
    assert "x.bin" in message
    assert str(target) in message
    assert "404" in message
    assert "check sum" in message
    assert not target.exists()


def test_offline(tmp_path: Path) -> None:
    file = DataFile(name="x.bin", sha256="0" * 64, urls=("http://127.0.0.1:9/x.bin",))
    with pytest.raises(DataError, match="put it at"):
        download(file, tmp_path / "x.bin")


def test_two_at_once(server: Server, tmp_path: Path) -> None:
    results: list[bytes] = []

    def run() -> None:
        results.append(download(_file(server, "breaks"), tmp_path / "x.bin").read_bytes())

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [BODY] * 4
    assert len(server.requests) == 3, "only one of the four fetched it"
