"""Runs the kernel cases in processes of their own.

Triton decides between its compiler and its interpreter when it is first imported, and torch may import it for
other tests, so neither choice can be made inside this process.
"""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from autocl.errors import InputError

OPS = ("srwm", "delta")
HERE = Path(__file__).parent
needs_triton = pytest.mark.skipif(not importlib.util.find_spec("triton"), reason="triton is not installed")
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


def python(*arguments: str, interpret: bool = False) -> None:
    """Run python with these arguments and show what it printed if it fails."""
    environment = os.environ | {"TRITON_INTERPRET": "1" if interpret else "0"}
    done = subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def run_cases(name: str, marks: str, *, interpret: bool) -> None:
    python(
        "-m", "pytest", "-p", "no:cacheprovider", "-m", marks, str(HERE / f"{name}_triton_cases.py"),
        interpret=interpret,
    )  # fmt: skip


@needs_triton
@pytest.mark.parametrize("op", OPS)
def test_kernels_equal_naive_in_the_interpreter(op: str) -> None:
    run_cases(op, "not slow", interpret=True)


@needs_triton
@pytest.mark.slow
@pytest.mark.parametrize("op", OPS)
def test_slow_cases_in_the_interpreter(op: str) -> None:
    run_cases(op, "slow", interpret=True)


@needs_triton
@needs_cuda
@pytest.mark.parametrize("op", OPS)
def test_kernels_equal_naive_on_the_gpu(op: str) -> None:
    run_cases(op, "slow or not slow", interpret=False)


@needs_triton
@pytest.mark.slow
def test_kernels_compile_for_gpus_without_spilling_registers() -> None:
    python(str(HERE / "triton_compile_check.py"))


@needs_triton
@pytest.mark.parametrize("op", OPS)
def test_cpu_tensors_are_refused_with_the_remedy(op: str) -> None:
    code = (
        "import torch\n"
        "from autocl.errors import InputError\n"
        f"from autocl.ops.{op}.triton import {op}_triton as run\n"
        "try:\n"
        "    run(*(torch.zeros(1, 1, 16, 4) for _ in range(5 if 'delta' in run.__name__ else 2)))\n"
        "except InputError as error:\n"
        "    assert \"is on 'cpu'\" in str(error) and 'TRITON_INTERPRET' in str(error), error\n"
        "else:\n"
        "    raise SystemExit('accepted CPU tensors')\n"
    )
    python("-c", code)


def test_importing_the_ops_does_not_import_triton() -> None:
    python("-c", "import sys, autocl, autocl.ops.srwm, autocl.ops.delta; assert 'triton' not in sys.modules")


@pytest.mark.parametrize("op", OPS)
def test_missing_triton_is_explained(op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton", None)
    for module in ("autocl.ops.triton_support", f"autocl.ops.{op}.triton"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    with pytest.raises(InputError, match=r"autocl\[gpu\]"):
        importlib.import_module(f"autocl.ops.{op}.triton")
