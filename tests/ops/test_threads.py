"""Threads: work is done once, a failure reaches the caller, and settings of the user stand."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

from autocl.cli.main import usable_cores
from autocl.ops.threads import WORTH_SHARING, in_threads


@pytest.fixture
def three_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def add_one(lo, hi, array):
    array[lo:hi] += 1


def test_every_item_is_done_once_from_many_callers(three_threads):
    arrays = [np.zeros(50 + n) for n in range(8)]
    callers = [threading.Thread(target=in_threads, args=(add_one, WORTH_SHARING, a)) for a in arrays]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert all((a == 1).all() for a in arrays)


def test_a_failure_is_raised_when_nobody_works_any_more(three_threads):
    running = []

    def fail_late(lo, hi, array):
        running.append(lo)
        add_one(lo, hi, array)
        running.remove(lo)
        if lo:
            raise ValueError("not this item")

    with pytest.raises(ValueError, match="not this item"):
        in_threads(fail_late, WORTH_SHARING, np.zeros(60))
    assert not running
    done = np.zeros(60)
    in_threads(add_one, WORTH_SHARING, done)  # the helpers have survived it
    assert (done == 1).all()


def test_a_forked_child_has_helpers_of_its_own(three_threads):
    in_threads(add_one, WORTH_SHARING, np.zeros(60))  # the parent's are running
    child = os.fork()
    if child == 0:
        done = np.zeros(60)
        in_threads(add_one, WORTH_SHARING, done)
        os._exit(0 if (done == 1).all() else 1)
    assert os.waitpid(child, 0)[1] == 0


ASK = (
    "import os, sys; from autocl.cli.main import main; assert 'torch' not in sys.modules; "
    "main(['--version']); print(os.environ['OMP_WAIT_POLICY'], os.environ['OMP_NUM_THREADS'])"
)


def answer(**settings: str) -> list[str]:
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("OMP_")}
    command = [sys.executable, "-c", ASK]
    done = subprocess.run(command, env=inherited | settings, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1].split()


def test_the_command_line_lets_threads_sleep_before_it_imports_torch() -> None:
    assert answer() == ["PASSIVE", str(usable_cores())]


def test_the_users_own_settings_are_kept() -> None:
    assert answer(OMP_WAIT_POLICY="ACTIVE", OMP_NUM_THREADS="3") == ["ACTIVE", "3"]


@pytest.mark.parametrize(("text", "cores"), [("100000 100000", 1), ("50000 100000", 1), ("max 100000", None)])
def test_a_container_has_no_more_threads_than_its_share(text: str, cores: int | None, tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text(text)
    bound = usable_cores(tmp_path / "missing")
    assert usable_cores(tmp_path / "cpu.max") == (cores or bound)
