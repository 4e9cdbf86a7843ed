"""Imports point one way: lower packages know nothing of higher ones, function-level imports included."""

import ast
from pathlib import Path

import pytest

import autocl

ROOT = Path(autocl.__file__).parent
BASE = {"errors", "files", "config", "names", "registry"}
MAY_IMPORT = {
    "ops": BASE,
    "encoders": BASE | {"ops"},
    "layers": BASE | {"ops", "encoders"},
    "readouts": BASE,
    "zoo": BASE | {"learner"},
    "learner": BASE | {"ops", "encoders", "layers", "readouts", "zoo"},
}
"""What each package may import beside itself. The zoo is only names and files; `learner/find.py` asks it."""


def imported(file: Path) -> set[str]:
    """Parts of autocl that a file imports, by the first word behind the dot."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "autocl":
            found |= {f"autocl.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return {name.split(".")[1] for name in found if name.startswith("autocl.")}


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_a_package_imports_nothing_above_it(package: str) -> None:
    allowed = MAY_IMPORT[package] | {package}
    wrong = {
        str(file.relative_to(ROOT)): sorted(imported(file) - allowed)
        for file in (ROOT / package).rglob("*.py")
        if "backbones" not in file.parts and imported(file) - allowed
    }
    assert not wrong, f"{package} may import {sorted(MAY_IMPORT[package])}"
