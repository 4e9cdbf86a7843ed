"""A few hundred damaged files for every reader; `make fuzz` tries thousands (`tools/fuzz.py`)."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def fuzz(readers: str, cases: int) -> None:
    # A process of its own, because it limits its memory and sets an alarm.
    done = subprocess.run(
        [sys.executable, "-m", "tools.fuzz", "--only", readers, "--cases", str(cases), "--seconds", "400"],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{cases} damaged files, 0 failures" in done.stdout


def test_memory_and_weights():
    fuzz("classifier,state,grown state,learner,read-out", 800)


def test_all_other_readers():
    fuzz("checkpoint,recipe,log,emergence,results,report,card,images", 800)
