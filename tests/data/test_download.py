"""The downloader against a server on this machine that behaves badly on purpose."""

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from autocl.data.catalog import DataFile
from autocl.data.locate import download
from autocl.errors import DataError

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
