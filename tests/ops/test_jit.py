"""Kernels run where numba can keep nothing, and a damaged cache is built anew: one warning, no error."""

import os
import subprocess
import sys

import pytest

from autocl.ops.conv_blocks import kernel as conv
from autocl.ops.delta import cpu as delta
from autocl.ops.jit import _ForgivingCache
from autocl.ops.srwm.kernel import forward_kernel

KERNEL = """
from autocl.ops.jit import njit

@njit(nogil=True)
def twice(x):
    return 2 * x

@njit(nogil=True)
def thrice(x):
    return 3 * x
"""
RUN = """
import resource, signal, sys, warnings
if "full" in sys.argv:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    from kernel import thrice, twice
    print(twice(21), thrice(1.5))
print(*[w.message for w in caught if "autocl" in str(w.message)], sep="\\n")
"""


@pytest.fixture
def run(tmp_path):
    (tmp_path / "kernel.py").write_text(KERNEL)
    cache = tmp_path / "cache"

    def run(*arguments: str, **variables: str) -> list[str]:
        path = os.pathsep.join([str(tmp_path), *sys.path])
        env = {**os.environ, "NUMBA_CACHE_DIR": str(cache), **variables, "PYTHONPATH": path}
        done = subprocess.run(
            [sys.executable, "-c", RUN, *arguments], env=env, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr
        result, *warned = done.stdout.splitlines()
        assert result == "42 4.5"
        return [line for line in warned if line]

    run.cache = cache
    return run


def test_a_cache_is_used_without_a_word(run):
    assert run() == []
    assert len(list(run.cache.rglob("*.nbc"))) == 2
    assert run() == []


def test_no_place_for_a_cache(run):
    (warning,) = run(NUMBA_CACHE_DIR="/dev/null/x", NUMBA_CACHE_LOCATOR_CLASSES="UserProvidedCacheLocator")
    assert "cannot keep compiled kernels" in warning
    assert "NUMBA_CACHE_DIR" in warning


def test_a_full_disk(run):
    (warning,) = run("full")
    assert "cannot keep compiled kernels" in warning


@pytest.mark.parametrize(("suffix", "damage"), [(".nbc", bytes(range(256))), (".nbi", b"")])
def test_a_damaged_cache_is_built_anew(run, suffix, damage):
    run()
    for file in run.cache.rglob(f"*{suffix}"):
        file.write_bytes(damage)
    (warning,) = run()
    assert "cannot read compiled kernels" in warning
    assert run() == []


def test_the_real_kernels_are_forgiving_too():
    srwm = forward_kernel(8, "torch.float32")
    kernels = [conv.forward, conv.backward, delta.forward_kernel, delta.backward_kernel, srwm]
    assert all(isinstance(kernel._cache, _ForgivingCache) for kernel in kernels)
