"""Many sessions at once, sessions in a folder, sessions that nobody uses."""

import asyncio
import os

import httpx
import numpy as np
import pytest
from play_files import base64_of, decoded, lesson, png
from starlette.testclient import TestClient

from autocl import ContinualClassifier
from autocl.errors import FileError
from autocl.play.app import make_app
from autocl.play.engine import Engine
from autocl.play.guard import Limits, RefusedError
from autocl.play.sessions import SWEEP, Sessions

SESSIONS, DEMOS = 200, 5


async def taught_at_once(app) -> list[list[list[tuple[str, float]]]]:
    """Answers of every session, in the middle and at the end, while all of them learn at the same time."""

    async def one(client: httpx.AsyncClient, i: int) -> list[list[tuple[str, float]]]:
        session = f"/sessions/{(await client.post('/sessions')).json()['session']}"
        answers = []
        for k in range(DEMOS):
            await asyncio.sleep(np.random.default_rng([i, k]).uniform(0, 0.05))
            learned = await client.post(f"{session}/learn", json=lesson((f"{(i + k) % 3}", DEMOS * i + k)))
            assert learned.json()["moment"] == k + 1
            if k in (1, DEMOS - 1):
                asked = await client.post(f"{session}/predict", json={"images": [base64_of(png(i))]})
                answers.append(
                    [(a["label"], a["probability"]) for a in asked.json()["answers"][0]["answers"]]
                )
        return answers

    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=600) as client:
            return await asyncio.gather(*(one(client, i) for i in range(SESSIONS)))


def own_answers(learner: str, i: int) -> list[list[tuple[str, float]]]:
    """What the estimator alone says, taught the same."""
    clf = ContinualClassifier(learner, overflow="ensemble")
    answers = []
    for k in range(DEMOS):
        clf.partial_fit([decoded(DEMOS * i + k)], [f"{(i + k) % 3}"])
        if k in (1, DEMOS - 1):
            labels, shares = clf.predict_topk([decoded(i)], k=9)
            answers.append(sorted(zip(labels[0].tolist(), shares[0].tolist(), strict=True)))
    return answers


@pytest.mark.parametrize("name", ["small", pytest.param("everyday", marks=pytest.mark.slow)])
def test_two_hundred_sessions_at_once_lose_and_mix_nothing(name, learner):
    which = learner if name == "small" else name
    app = make_app(which)
    found = asyncio.run(taught_at_once(app))
    for i, answers in enumerate(found):
        assert [sorted(a) for a in answers] == own_answers(which, i), f"session {i}"
    engine = app.state.api.engine
    assert engine.encoded == SESSIONS * (DEMOS + 2)
    assert engine.encoded / engine.batches > 4  # they were encoded together


def test_what_fails_in_a_batch_fails_alone(learner):
    engine = Engine(learner)
    engine.start()

    async def run() -> list:
        ok, bad = np.zeros((9, 9), np.uint8), np.zeros((3, 3, 3, 3), np.uint8)
        jobs = [
            engine.run(len, [ok]),
            engine.run(len, [bad]),
            engine.run(lambda seen: 1 / 0),
            engine.run(len, [ok] * 2),
        ]
        return await asyncio.gather(*jobs, return_exceptions=True)

    first, second, third, fourth = asyncio.run(run())
    assert (first, fourth) == (1, 2)
    assert isinstance(second, Exception)
    assert isinstance(third, ZeroDivisionError)
    engine.stop()


def test_stored_sessions_survive_a_restart_bit_for_bit(learner, tmp_path):
    ask = lambda c, s: c.post(f"{s}/predict", json={"images": [base64_of(png(7))]}).json()  # noqa: E731
    with TestClient(make_app(learner, store=tmp_path), base_url="http://localhost") as client:
        taught, fresh, back, gone = (
            f"/sessions/{client.post('/sessions').json()['session']}" for _ in range(4)
        )
        for session in (taught, back, gone):
            client.post(f"{session}/learn", json=lesson(("a", 0), ("b", 1), ("a", 2)))
        client.post(f"{back}/back", json={"moment": 1})
        client.delete(gone)
        before = ask(client, taught)
        with pytest.raises(FileError, match="in use by another"):
            make_app(learner, store=tmp_path)
    with TestClient(make_app(learner, store=tmp_path), base_url="http://localhost") as client:
        assert ask(client, taught) == before
        assert client.get(taught).json()["moment"] == 3
        assert client.get(taught).json()["moments"] == [0, 3]
        assert [c["label"] for c in client.get(back).json()["classes"]] == ["a"]
        assert client.get(fresh).json()["classes"] == []
        assert client.get(gone).status_code == 404
        assert client.post(f"{taught}/learn", json=lesson(("c", 3))).json()["moment"] == 4
    assert len(list(tmp_path.glob("*.safetensors"))) == 2


def test_what_cannot_be_written_was_not_learned(learner, tmp_path, monkeypatch):
    with TestClient(make_app(learner, store=tmp_path), base_url="http://localhost") as client:
        session = f"/sessions/{client.post('/sessions').json()['session']}"
        client.post(f"{session}/learn", json=lesson(("a", 0)))

        def full(*_, **__):
            raise FileError("could not write: no space left")

        with monkeypatch.context() as patched:
            patched.setattr("autocl.play.session.ContinualClassifier.save", full)
            refused = client.post(f"{session}/learn", json=lesson(("b", 1)))
            not_renamed = client.post(f"{session}/rename", json={"label": "a", "to": "c"})
        assert (refused.status_code, not_renamed.status_code) == (507, 507)
        assert "nothing was changed" in refused.json()["error"]
        assert [c["label"] for c in client.get(session).json()["classes"]] == ["a"]


def test_a_damaged_file_in_the_folder_is_an_answer_not_a_crash(learner, tmp_path):
    with TestClient(make_app(learner, store=tmp_path), base_url="http://localhost") as client:
        session = f"/sessions/{client.post('/sessions').json()['session']}"
        client.post(f"{session}/learn", json=lesson(("a", 0)))
    (file,) = tmp_path.glob("*.safetensors")
    file.write_bytes(file.read_bytes()[:-5])
    with TestClient(make_app(learner, store=tmp_path), base_url="http://localhost") as client:
        refused = client.get(session)
        assert refused.status_code == 422
        assert "damaged" in refused.json()["error"]


def test_sessions_that_nobody_uses_end_and_there_are_never_too_many(learner, tmp_path):
    now = [1e9]
    engine = Engine(learner)
    sessions = Sessions(engine, Limits(hours=1, sessions=2), tmp_path, clock=lambda: now[0])
    old, used = sessions.create(), sessions.create()
    with pytest.raises(RefusedError, match="2 sessions already"):
        sessions.create()
    now[0] += 3000
    sessions.get(used.name)
    now[0] += 700
    with pytest.raises(RefusedError, match="expired"):
        sessions.get(old.name)
    assert sessions.get(used.name) is used
    sessions.close()
    # A server that starts later deletes what has expired meanwhile.
    now[0] += 3600 + 2 * SWEEP
    again = Sessions(engine, Limits(hours=1), tmp_path, clock=lambda: now[0])
    now[0] += 2 * SWEEP
    assert sorted(p.name for p in tmp_path.glob("*.json")) == [f"{used.name}.json"]
    again.create()
    assert f"{used.name}.json" not in os.listdir(tmp_path)
    again.close()


def test_earlier_states_of_all_sessions_together_are_bounded(learner):
    engine = Engine(learner)
    engine._warm_up()
    pictures = [decoded(i) for i in range(4)]
    seen = engine._encoder.encode(pictures)
    now = [0.0]
    one_state = Sessions(engine, Limits()).create()
    one_state.learn(seen[:1], ["a"])
    limits = Limits(all_bytes=6 * one_state.state_bytes)
    sessions = Sessions(engine, limits, clock=lambda: now[0])
    old, new = sessions.create(), sessions.create()
    for session in (old, new):
        for i in range(4):
            now[0] += 1
            sessions.change(session.name, lambda s, i=i: s.learn(seen[i : i + 1], ["ab"[i % 2]]))
    assert old.kept_bytes + new.kept_bytes <= limits.all_bytes
    assert old.moments == [0, 4]  # it was used longer ago
    assert new.moments == [0, 1, 2, 3, 4]
    assert old.classes == new.classes == {"a": 2, "b": 2}
    assert old.predict(seen) == new.predict(seen)
    with pytest.raises(RefusedError, match="nearest before it is 0"):
        old.go_to(2)


@pytest.mark.parametrize("name", ["../../etc/passwd", "a" * 21, "", "x" * 22])
def test_names_reach_no_other_file(learner, tmp_path, name):
    sessions = Sessions(Engine(learner), Limits(), tmp_path / "store")
    with pytest.raises(RefusedError, match="no such session"):
        sessions.get(name)
    sessions.close()
