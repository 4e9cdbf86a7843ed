"""Every example in a docstring of these packages runs."""

import doctest
import importlib
import pkgutil

import pytest

PACKAGES = ["baselines", "encoders", "layers", "learner", "readouts", "recipes", "training"]
SINGLE = ["config", "names", "objective"]


def modules() -> list[str]:
    found = [f"autocl.{name}" for name in SINGLE]
    for package in PACKAGES:
        folder = importlib.import_module(f"autocl.{package}")
        found.append(folder.__name__)
        found += [f"{folder.__name__}.{module.name}" for module in pkgutil.iter_modules(folder.__path__)]
    return found


@pytest.mark.parametrize("name", modules())
def test_examples_in_docstrings_run(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0
