"""The API does what its description says, and refuses what it should with a reason."""

import io
import json
import re
import struct
import zlib

import numpy as np
import pytest
import torch
from PIL import Image
from play_files import base64_of, lesson, png
from starlette.testclient import TestClient

from autocl import ContinualClassifier, EncoderConfig, Learner
from autocl.learner import ReadoutLearnerConfig
from autocl.play import forms
from autocl.play.app import make_app
from autocl.play.guard import Limits
from autocl.readouts import ReadoutConfig
from autocl.typed_json import parse_json

IMAGE = {"content-type": "image/png"}


def start(client: TestClient) -> str:
    answer = client.post("/sessions")
    assert answer.status_code == 201
    return f"/sessions/{answer.json()['session']}"


def labels(summary: dict) -> dict[str, int]:
    return {c["label"]: c["examples"] for c in summary["classes"]}


def test_a_class_is_live_after_one_example_and_says_what_was_believed_before(client):
    session = start(client)
    first = client.post(f"{session}/learn?label=cat", content=png(0), headers=IMAGE).json()
    assert first["before"][0]["answers"] == []
    assert first["before"][0]["novelty"] == 1
    asked = client.post(f"{session}/predict", content=png(1), headers=IMAGE).json()["answers"][0]
    assert [a["label"] for a in asked["answers"]] == ["cat"]
    second = client.post(f"{session}/learn", json=lesson(("dog", 1), ("cat", 2))).json()
    assert [len(b["answers"]) for b in second["before"]] == [1, 2]
    assert labels(second) == {"cat": 2, "dog": 1}
    assert second["moment"] == 3
    assert second["moments"] == [0, 1, 2, 3]


def test_answers_are_the_estimators_own_bit_for_bit(client, learner):
    session = start(client)
    client.post(f"{session}/learn", json=lesson(("a", 0), ("b", 1), ("c", 2)))
    question = {"images": [base64_of(png(i)) for i in range(5)], "features": True}
    answers = client.post(f"{session}/predict", json=question).json()["answers"]
    pictures = [np.asarray(Image.open(io.BytesIO(png(i)))) for i in range(5)]
    clf = ContinualClassifier(learner).partial_fit(pictures[:3], ["a", "b", "c"])
    shares, novelty = clf.predict_proba(pictures), clf.novelty(pictures)
    for row, new, answer in zip(shares, novelty, answers, strict=True):
        found = {a["label"]: a["probability"] for a in answer["answers"]}
        assert [found[label] for label in clf.classes_] == row.tolist()
        assert answer["novelty"] == new
        assert answer["novelty_by"] == "probability"
        assert list(found.values()) == sorted(found.values(), reverse=True)
    top = client.post(f"{session}/predict", json={**question, "top": 1}).json()["answers"]
    assert [a["answers"] for a in top] == [a["answers"][:1] for a in answers]


def test_going_back_is_exact_and_later_moments_stay_until_something_else_is_learned(client):
    session = start(client)
    client.post(f"{session}/learn", json=lesson(("a", 0), ("b", 1)))
    ask = lambda: client.post(f"{session}/predict", content=png(9), headers=IMAGE).json()["answers"]  # noqa: E731
    two = ask()
    client.post(f"{session}/learn", json=lesson(("c", 2)))
    three = ask()
    assert labels(client.post(f"{session}/back", json={"moment": 2}).json()) == {"a": 1, "b": 1}
    assert ask() == two
    client.post(f"{session}/back", json={"moment": 3})
    assert ask() == three
    nothing = client.post(f"{session}/back", json={"moment": 0}).json()
    assert nothing["classes"] == []
    assert ask()[0]["answers"] == []
    again = client.post(f"{session}/learn", json=lesson(("a", 0))).json()
    assert again["moments"] == [0, 1]
    client.post(f"{session}/learn", json=lesson(("b", 1)))
    assert ask() == two
    refused = client.post(f"{session}/back", json={"moment": 7})
    assert refused.status_code == 409
    assert "nearest before it is 2" in refused.json()["error"]


def test_old_moments_make_room_for_new_ones_but_the_beginning_stays(learner):
    with TestClient(
        make_app(learner, limits=Limits(history_bytes=9000)), base_url="http://localhost"
    ) as client:
        session = start(client)
        for i in range(6):
            done = client.post(f"{session}/learn", json=lesson(("a", i))).json()
        size = done["state_bytes"]
        assert done["moments"] == [0, *range(6 - 9000 // size, 7)]


def test_a_state_goes_out_as_a_file_and_comes_back(client, learner, tmp_path):
    session = start(client)
    assert client.get(f"{session}/state").status_code == 409
    client.post(f"{session}/learn", json=lesson(("a", 0), ("b", 1)))
    file = client.get(f"{session}/state").content
    (tmp_path / "state.safetensors").write_bytes(file)
    assert ContinualClassifier.load(tmp_path / "state.safetensors").n_seen_ == 2
    other = start(client)
    taken = client.put(f"{other}/state", content=file).json()
    assert labels(taken) == {"a": 1, "b": 1}
    ask = lambda s: client.post(f"{s}/predict", content=png(5), headers=IMAGE).json()["answers"]  # noqa: E731
    assert ask(other) == ask(session)
    for damage in (b"", b"text", file[:-9], file[:-1] + bytes([file[-1] ^ 1])):
        refused = client.put(f"{other}/state", content=damage)
        assert refused.status_code == 422
        assert "the state file" in refused.json()["error"]
    assert labels(client.get(other).json()) == {"a": 1, "b": 1}


def test_renaming_holds_at_all_moments_and_never_merges(client):
    session = start(client)
    client.post(f"{session}/learn", json=lesson(("a", 0), ("b", 1), ("a", 2)))
    renamed = client.post(f"{session}/rename", json={"label": "a", "to": " ä "}).json()
    assert labels(renamed) == {"ä": 2, "b": 1}
    assert labels(client.post(f"{session}/back", json={"moment": 1}).json()) == {"ä": 1}
    assert client.post(f"{session}/rename", json={"label": "ä", "to": "b"}).status_code == 409
    assert client.post(f"{session}/rename", json={"label": "x", "to": "y"}).status_code == 404


def test_a_learner_that_cannot_forget_says_so_and_the_only_class_goes_all_the_same(client):
    session = start(client)
    client.post(f"{session}/learn", json=lesson(("a", 0), ("b", 1)))
    refused = client.post(f"{session}/forget", json={"label": "a"})
    assert refused.status_code == 409
    assert "cannot forget" in refused.json()["error"]
    client.post(f"{session}/back", json={"moment": 1})
    assert client.post(f"{session}/forget", json={"label": "a"}).json()["classes"] == []
    assert labels(client.post(f"{session}/learn", json=lesson(("c", 3))).json()) == {"c": 1}


def test_a_learner_that_can_forget_a_class_is_as_if_it_had_never_seen_it(tmp_path):
    torch.manual_seed(0)
    config = ReadoutLearnerConfig(
        readout=ReadoutConfig(kind="means"), n_classes=3, channels=1, height=16, width=16,
        encoder=EncoderConfig(width=4),
    )  # fmt: skip
    file = Learner(config).save_pretrained(tmp_path / "means.safetensors")
    with TestClient(make_app(str(file)), base_url="http://localhost") as client:
        session, other = start(client), start(client)
        client.post(f"{session}/learn", json=lesson(("a", 0), ("b", 1), ("c", 2)))
        client.post(f"{other}/learn", json=lesson(("b", 1), ("c", 2)))
        assert labels(client.post(f"{session}/forget", json={"label": "a"}).json()) == {"b": 1, "c": 1}
        after, never = (
            client.post(f"{s}/predict", content=png(9), headers=IMAGE).json()["answers"][0]
            for s in (session, other)
        )
        assert [a["label"] for a in after["answers"]] == [a["label"] for a in never["answers"]]
        assert [a["probability"] for a in after["answers"]] == pytest.approx(
            [a["probability"] for a in never["answers"]], abs=1e-6
        )
        assert after["novelty_by"] == "learner"
        assert labels(client.post(f"{session}/back", json={"moment": 3}).json()) == {"a": 1, "b": 1, "c": 1}


def test_the_state_is_drawn_and_changes_with_every_example(client):
    session = start(client)
    drawn = [client.get(f"{session}/picture").content]
    for i in range(3):
        client.post(f"{session}/learn", json=lesson((f"class {i}", i)))
        drawn.append(client.get(f"{session}/picture").content)
    assert len(set(drawn)) == 4
    assert {Image.open(io.BytesIO(d)).size for d in drawn} == {(192, 192)}


def test_sessions_are_isolated_and_end(client):
    one, two = start(client), start(client)
    client.post(f"{one}/learn", json=lesson(("a", 0)))
    assert client.get(two).json()["classes"] == []
    assert client.delete(one).status_code == 204
    assert client.get(one).status_code == 404
    assert "start a new one" in client.get(one).json()["error"]


def bomb(width: int, height: int) -> bytes:
    """A PNG file of a few bytes that says it has so many pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", b"") + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("what", "status", "message"),
    [
        (b"just some text", 422, "not an image"),
        (bomb(10_000, 10_000), 413, "10000×10000 pixels are too many"),
        (png(0)[:60], 422, "damaged"),
        (b"", 422, "not an image"),
    ],
    ids=["text", "100 megapixels", "cut short", "empty"],
)
def test_bad_pictures_are_refused_and_nothing_is_learned(client, what, status, message):
    session = start(client)
    for path in ("learn?label=a", "predict"):
        refused = client.post(f"{session}/{path}", content=what, headers=IMAGE)
        assert refused.status_code == status
        assert message in refused.json()["error"]
    mixed = {"examples": [*lesson(("a", 0))["examples"], {"label": "a", "image": base64_of(what)}]}
    assert client.post(f"{session}/learn", json=mixed).status_code == status
    assert client.get(session).json()["classes"] == []


def test_too_many_classes_are_refused_as_a_whole(learner):
    with TestClient(
        make_app(learner, limits=Limits(classes=20, pictures=10_000)), base_url="http://localhost"
    ) as client:
        session = start(client)
        client.post(f"{session}/learn", json=lesson(("a", 0)))
        refused = client.post(f"{session}/learn", json=lesson(*((f"class {i}", i % 3) for i in range(500))))
        assert refused.status_code == 422
        assert "501 classes: a session has at most 20" in refused.json()["error"]
        assert labels(client.get(session).json()) == {"a": 1}


def test_states_that_grow_too_large_are_refused(learner):
    with TestClient(make_app(learner, limits=Limits(state_bytes=10)), base_url="http://localhost") as client:
        session = start(client)
        refused = client.post(f"{session}/learn", json=lesson(("a", 0)))
        assert refused.status_code == 413
        assert client.get(session).json()["moment"] == 0


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (("POST", "/sessions/unknown/learn", {"json": lesson(("a", 0))}), 404),
        (("GET", "/sessions/../../etc/passwd/state", {}), 404),
        (("GET", "/nowhere", {}), 404),
        (("PUT", "/sessions", {}), 405),
        (("POST", "{s}/learn", {"content": b"{"}), 400),
        (("POST", "{s}/learn", {"content": b"\xff"}), 400),
        (("POST", "{s}/learn", {"json": {"examples": []}}), 422),
        (("POST", "{s}/learn", {"json": {"examples": [{"label": 1, "image": ""}]}}), 400),
        (("POST", "{s}/learn", {"json": {"examples": [{"label": "a", "image": "?"}]}}), 400),
        (("POST", "{s}/learn?label=", {"content": png(0), "headers": IMAGE}), 422),
        (("POST", "{s}/learn?label=a%00b", {"content": png(0), "headers": IMAGE}), 422),
        (("POST", "{s}/learn?label=" + "x" * 101, {"content": png(0), "headers": IMAGE}), 422),
        (("POST", "{s}/predict", {"json": {"images": [base64_of(png(0))], "top": 0}}), 422),
        (("POST", "{s}/back", {"json": {"moment": "1"}}), 400),
        (("POST", "{s}/back", {"json": {"moment": -1}}), 409),
        (("POST", "{s}/forget", {"json": {"label": "x"}}), 404),
    ],
)  # fmt: skip
def test_bad_requests_get_a_reason(client, request_, status):
    method, path, rest = request_
    refused = client.request(method, path.replace("{s}", start(client)), **rest)
    assert refused.status_code == status
    assert refused.json()["error"]


def test_long_requests_are_cut_off(learner):
    with TestClient(make_app(learner, limits=Limits(body_bytes=1000)), base_url="http://localhost") as client:
        refused = client.post(f"{start(client)}/predict", content=bytes(1001), headers=IMAGE)
        assert refused.status_code == 413
        assert "1,000 bytes" in refused.json()["error"]


def test_answers_have_the_form_that_is_described(client):
    description = client.get("/openapi.json").json()
    schemas = description["components"]["schemas"]
    assert set(re.findall(r"schemas/(\w+)", str(description["paths"]) + str(schemas))) == schemas.keys()
    assert "1,000 classes" in description["info"]["description"]

    session = start(client)
    learned = client.post(f"{session}/learn", json={**lesson(("a", 0)), "features": True}).text
    asked = client.post(f"{session}/predict", json={"images": [base64_of(png(1))], "features": True}).text
    refused = client.post(f"{session}/back", json={"moment": "x"}).text
    for text, form in ((learned, forms.Learned), (asked, forms.Answers), (refused, forms.Refusal)):
        answer = parse_json(text, form, where="answer")
        assert answer.keys() == schemas[form.__name__]["properties"].keys()
    (answer,) = json.loads(asked)["answers"]
    assert answer.keys() == schemas["Answer"]["properties"].keys()


def test_the_tour_is_ten_digits_two_at_a_time(client):
    tasks = client.get("/tour").json()["tasks"]
    assert [t["classes"] for t in tasks] == [["0", "1"], ["2", "3"], ["4", "5"], ["6", "7"], ["8", "9"]]
    taught = {e["image"] for t in tasks for e in t["teach"]}
    assert not taught & {e["image"] for t in tasks for e in t["held_back"]}
    assert all({e["label"] for e in t["teach"]} == set(t["classes"]) for t in tasks)
