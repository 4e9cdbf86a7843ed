"""Threads are configured before torch is imported, and never against the user's own settings."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from autocl.threads import usable_cores

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
