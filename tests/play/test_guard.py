"""Foreign pages, foreign names and strangers without the token stay outside."""

import pytest
from starlette.testclient import TestClient

from autocl.cli.main import main
from autocl.play.app import is_loopback, make_app


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "127.0.0.1.nip.io", "bad[", ""])
def test_foreign_names_are_refused(client, host):
    refused = client.get("/health", headers={"host": host})
    assert refused.status_code == 403
    assert "not this server's" in refused.json()["error"]


@pytest.mark.parametrize("host", ["localhost", "localhost:8642", "127.0.0.1:1", "[::1]:80"])
def test_own_names_are_served(client, host):
    assert client.get("/health", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "http://localhost:9999"},
        {"origin": "null"},
        {"origin": "http://["},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_pages_of_other_sites_are_refused(client, headers):
    assert client.post("/sessions", headers=headers).status_code == 403


def test_the_own_page_is_served(client):
    own = {"origin": "http://localhost", "sec-fetch-site": "same-origin"}
    assert client.post("/sessions", headers=own).status_code == 201
    assert client.get("/", headers={"sec-fetch-site": "cross-site"}).status_code == 200  # a link to it


def test_answers_forbid_everything_that_the_page_does_not_need(client):
    for path in ("/", "/health", "/nowhere"):
        headers = client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cross-origin-resource-policy"] == "same-origin"


def test_with_a_token_only_the_page_is_public(learner):
    with TestClient(make_app(learner, hosts=None, token="sesame"), base_url="http://far") as client:
        assert client.get("/").status_code == client.get("/openapi.json").status_code == 200
        for wrong in ({}, {"authorization": "Bearer sesam"}, {"authorization": "Bearer ünicode".encode()}):
            refused = client.post("/sessions", headers=wrong)
            assert refused.status_code == 401
            assert "token" in refused.json()["error"]
        assert client.post("/sessions", headers={"authorization": "Bearer sesame"}).status_code == 201
        assert client.get("/health").status_code == 401


def test_only_this_machines_addresses_need_no_token():
    assert all(map(is_loopback, ("127.0.0.1", "127.1.2.3", "::1", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "192.168.1.2", "example.org")))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--learner", "nobody"], "nobody"),
        (["--learner", "vectors"], "try everyday"),
        (["--port", "99999"], "--port 0"),
        (["--hours", "0"], "longer"),
    ],
)
def test_the_command_says_what_is_wrong_in_one_line(arguments, message, capsys):
    with pytest.raises(SystemExit) as end:
        main(["play", "--no-open", *arguments])
    assert end.value.code == 2
    told = capsys.readouterr().err
    assert message in told
    assert told.count("\n") == 1
