"""A real `autocl train`, killed forty times, ends as if nothing had happened: bit for bit, log included."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from forked_runs import steps_logged
from tiny import COMMAND_LINE, assert_same_run

KILLS = 40
STEPS = 160


def start(folder: Path) -> subprocess.Popen[bytes]:
    """Start the run, or continue it if it has come far enough to be one."""
    fresh = ["quick", *COMMAND_LINE.split(), "--steps", str(STEPS), "--out", str(folder)]
    options = ["--resume", str(folder)] if (folder / "recipe.json").exists() else fresh
    return subprocess.Popen(
        [sys.executable, "-m", "autocl", "train", *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


@pytest.mark.slow
def test_forty_kills_of_the_real_command(tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    run = start(whole)
    _, said = run.communicate(timeout=600)
    assert run.returncode == 0, said.decode()
    rng = random.Random(0)
    # The first ones before there is a second checkpoint, the rest all over the run; some while it starts.
    goals = [rng.randrange(4) for _ in range(6)] + sorted(rng.randrange(STEPS - 4) for _ in range(KILLS - 6))
    for goal in goals:
        run = start(killed)
        startup = time.monotonic() + rng.uniform(0.5, 5) if rng.random() < 0.2 else float("inf")
        while steps_logged(killed) <= goal and time.monotonic() < startup:
            assert run.poll() is None, run.stderr.read().decode()
            time.sleep(0.002)
        time.sleep(rng.uniform(0, 0.03))
        run.send_signal(signal.SIGKILL)
        run.communicate()
    run = start(killed)
    _, said = run.communicate(timeout=600)
    assert run.returncode == 0, said.decode()
    assert_same_run(whole, killed)
    assert {p.name for p in killed.iterdir()} == {p.name for p in whole.iterdir()}
