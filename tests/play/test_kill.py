"""A server that is killed loses at most the request under way."""

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import numpy as np
import pytest
from play_files import base64_of, decoded, lesson, png

from autocl import ContinualClassifier

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")


def start(learner: str, store: Path) -> tuple[subprocess.Popen[str], str]:
    command = [sys.executable, "-m", "autocl", "play", "--learner", learner, "--store", str(store)]
    server = subprocess.Popen([*command, "--port", "0", "--no-open"], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    found = re.search(r"http://\S+/", server.stdout.readline())
    assert found
    return server, found[0]


def shares(client: httpx.Client, session: str) -> dict[str, float]:
    asked = client.post(f"sessions/{session}/predict", json={"images": [base64_of(png(99))]})
    return {a["label"]: a["probability"] for a in asked.json()["answers"][0]["answers"]}


@pytest.mark.parametrize("kills", [1, pytest.param(4, marks=pytest.mark.slow)])
def test_kill_9_loses_at_most_the_request_under_way(kills, learner, tmp_path):
    done, session = 0, None
    clf = ContinualClassifier(learner, overflow="ensemble")
    for kill in range(kills + 1):
        server, url = start(learner, tmp_path)
        try:
            with httpx.Client(base_url=url, timeout=120) as client:
                session = session or client.post("sessions").json()["session"]
                if kill:
                    # The request under way may have been learned without an answer.
                    learned = client.get(f"sessions/{session}").json()["moment"]
                    assert learned in (done, done + 1)
                    for k in range(done, learned):
                        clf.partial_fit([decoded(k)], [f"{k % 3}"])
                    done = learned
                    assert list(shares(client, session).values()) == sorted(
                        clf.predict_proba([decoded(99)])[0].tolist(), reverse=True
                    )
                if kill < kills:
                    delay = np.random.default_rng(kill).uniform(0.1, 0.5)
                    timer = threading.Timer(delay, os.kill, [server.pid, signal.SIGKILL])
                    try:
                        while True:
                            if done and not timer.ident:
                                timer.start()
                            answer = client.post(
                                f"sessions/{session}/learn", json=lesson((f"{done % 3}", done))
                            )
                            assert answer.status_code == 200
                            clf.partial_fit([decoded(done)], [f"{done % 3}"])
                            done += 1
                    except httpx.TransportError:
                        pass
        finally:
            server.kill()
            server.wait()
    assert done > 0
