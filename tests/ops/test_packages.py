"""No package is shadowed by a function of its own name."""

import importlib
from types import ModuleType

import pytest


@pytest.mark.parametrize("name", ["srwm", "delta", "conv_blocks", "dropout"])
def test_an_op_is_a_package(name: str) -> None:
    ops = importlib.import_module("autocl.ops")
    importlib.import_module(f"autocl.ops.{name}.cpu")
    assert isinstance(getattr(ops, name), ModuleType)


def test_a_backend_can_be_imported_by_its_path() -> None:
    import autocl.ops.srwm.cpu as backend

    assert callable(backend.srwm_cpu)
