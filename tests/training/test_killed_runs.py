"""Kill −9, signals and dead ranks: every one leaves a run that continues as if nothing had happened."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from forked_runs import LONG, MEANS, SHARED, steps_logged
from tiny import COMMAND_LINE, assert_same_run, lines, tiny
from torch.testing import assert_close

from autocl.files import read_tensors
from autocl.training import checkpoint
from autocl.training.recipe import Recipe
from autocl.training.trainer import train

HERE = Path(__file__).parent
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def forked(*args: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(HERE / "forked_runs.py"), *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=300, check=False)


def progress(folder: Path) -> str:
    return read_tensors(folder / checkpoint.FILE_NAME, kind="checkpoint")[1]["progress"]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("uninterrupted")
    train(LONG, folder)
    return folder


@pytest.mark.parametrize(
    ("kills", "seed"), [(3, 0), pytest.param(10, 1, marks=pytest.mark.slow)], ids=["three", "ten"]
)
def test_kill_9_at_random_moments(uninterrupted: Path, tmp_path: Path, kills: int, seed: int) -> None:
    folder = tmp_path / "killed"
    done = forked("kill", folder, kills, seed)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("killed after steps")
    assert_same_run(uninterrupted, folder)
    assert {p.name for p in folder.iterdir()} == {p.name for p in uninterrupted.iterdir()}


@pytest.mark.parametrize(
    ("mode", "recipe"), [(("ranks", 0), SHARED), (("means",), MEANS)], ids=["fast", "means"]
)
def test_two_ranks_are_one_process(mode: tuple[str, ...], recipe: Recipe, tmp_path: Path) -> None:
    done = forked(mode[0], tmp_path / "two", *mode[1:])
    assert done.stdout.split() == ["exits", "0", "0"], done.stderr
    train(recipe, tmp_path / "one")
    two, one = lines(tmp_path / "two"), lines(tmp_path / "one")
    assert [sorted(line) for line in two] == [sorted(line) for line in one]  # written once, by rank 0
    for ours, theirs in zip(two, one, strict=True):
        assert (
            ours == pytest.approx(theirs, rel=1e-4, abs=1e-5)
            if "loss" in ours
            else ours.keys() == theirs.keys()
        )
    (a, _), (b, _) = (
        read_tensors(tmp_path / n / "last.safetensors", kind="checkpoint") for n in ("two", "one")
    )
    assert a.keys() == b.keys()
    assert any(name.startswith("carried.") for name in a) == bool(recipe.carry_state)
    for name, tensor in a.items():
        assert_close(tensor, b[name], rtol=1e-3, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}")


def test_a_dead_rank_ends_the_run_with_its_reason_and_a_checkpoint(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    done = forked("ranks", folder, 5)
    assert done.stdout.split() == ["exits", "2", str(-signal.SIGKILL)], done.stderr
    assert "autocl: rank 0 of 2 cannot go on at step 5" in done.stderr
    assert "Continue with --resume" in done.stderr
    assert "Traceback" not in done.stderr
    assert '"step": 5' in progress(folder)
    train(tiny(steps=8), folder, resume=True)
    assert '"step": 8' in progress(folder)


def test_a_disk_that_fills_up_is_reported_and_spares_the_last_checkpoint(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    done = forked("disk", folder)
    assert done.returncode == 2, done.stderr
    assert "autocl: could not write" in done.stderr
    assert "Traceback" not in done.stderr
    assert '"step": 4' in progress(folder)
    train(tiny(), folder, resume=True)
    train(tiny(), tmp_path / "whole")
    assert_same_run(tmp_path / "whole", folder)


def started(*args: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "autocl", "train", *args]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)


def signalled(process: subprocess.Popen[str], folder: Path, signum: int, after: int) -> str:
    """Send the signal once so many steps are logged; what the process said."""
    while steps_logged(folder) <= after:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.01)
    process.send_signal(signum)
    return process.communicate(timeout=300)[1]


def test_ctrl_c_and_sigterm_save_and_exit_130_and_143(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run = started("quick", *COMMAND_LINE.split(), "--steps", "10000", "--out", str(folder))
    said = signalled(run, folder, signal.SIGINT, 3)
    assert run.returncode == 130, said
    assert f"stopped by SIGINT; continue with autocl train --resume {folder}" in said
    assert "Traceback" not in said
    done = steps_logged(folder)
    assert f'"step": {done},' in progress(folder)
    resumed = started("--resume", str(folder))
    said = signalled(resumed, folder, signal.SIGTERM, done)
    assert resumed.returncode == 143, said
    assert f'"step": {steps_logged(folder)},' in progress(folder)
    assert [x["step"] for x in lines(folder) if "loss" in x] == list(range(steps_logged(folder)))


@pytest.mark.slow
def test_torchrun_starts_ranks_that_share_a_run(tmp_path: Path) -> None:
    launch = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--rdzv-backend", "c10d",
              "--rdzv-endpoint", "127.0.0.1:0", "-m", "autocl", "train", "quick"]  # fmt: skip
    options = [*COMMAND_LINE.split(), "--steps", "5", "--device", "cpu", "--out", str(tmp_path / "run")]
    done = subprocess.run(
        [sys.executable, *launch, *options],
        capture_output=True, text=True, env=ENVIRONMENT, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [x["step"] for x in lines(tmp_path / "run") if "loss" in x] == list(range(5))


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
