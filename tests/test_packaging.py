"""What ships: wheel and sdist hold the zoo, install where nothing is, run there, need what they say."""

import ast
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from autocl import __version__, zoo

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
MODULES = {"scikit-learn": "sklearn", "pillow": "PIL", "open_clip_torch": "open_clip"}
"""How packages are imported that are not imported by their own name."""
COMES_WITH = {"llvmlite": "numba"}
"""Modules that a dependency cannot be without."""


def _names(requirements: Sequence[str]) -> set[str]:
    return {re.split(r"[^\w-]", requirement)[0] for requirement in requirements}


def _imported() -> set[str]:
    found: set[str] = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
    return found - set(sys.stdlib_module_names) - {"autocl"}


def test_every_dependency_is_imported_somewhere() -> None:
    unused = {MODULES.get(name, name) for name in _names(PROJECT["dependencies"])} - _imported()
    assert not unused


def test_everything_imported_is_a_dependency() -> None:
    extras = PROJECT["optional-dependencies"]
    ours = [packages for extra, packages in extras.items() if extra not in ("dev", "docs")]
    needed = _names([*PROJECT["dependencies"], *(package for packages in ours for package in packages)])
    missing = _imported() - {MODULES.get(name, name) for name in needed} - set(COMES_WITH)
    assert not missing
    assert set(COMES_WITH.values()) <= _names(PROJECT["dependencies"])


def test_the_metadata_say_what_is_tested_and_what_to_cite() -> None:
    versions = {c.rpartition(" ")[2] for c in PROJECT["classifiers"] if "Python :: 3." in c}
    assert versions == set(PYTHONS)
    cited = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version: (.*)$", cited, re.MULTILINE)[1] == __version__
    assert all(name in cited for name in ("Irie", "Csordás", "Schmidhuber", "Metalearning Continual"))
    assert f"## {__version__.partition('.dev')[0]} " in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("python", PYTHONS)
def test_the_constraints_can_be_met_by_the_registry_alone(python: str, tmp_path: Path) -> None:
    # uv reads neither pip's configuration nor its local wheels, and resolves from metadata, downloading none.
    command = [
        sys.executable, "-m", "uv", "pip", "compile", "pyproject.toml", "--all-extras", "--no-config",
        "-c", "constraints.txt", "--python-version", python, "-o", str(tmp_path / "resolved.txt"),
    ]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert "torch==2.13.0" in (tmp_path / "resolved.txt").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the sdist, made by the build backend in an environment of its own."""
    folder = tmp_path_factory.mktemp("built")
    python = _environment(folder / "builder")
    tools = ["hatchling", "twine"]
    got = _run([python, "-m", "pip", "install", "-q", "-c", str(ROOT / "constraints.txt"), *tools], folder)
    if got.returncode:
        # Without an index there is nothing to build with; that says nothing about our package.
        pytest.skip(f"packages cannot be installed here: {got.stderr.strip().splitlines()[-1]}")
    made = _run([python, "-m", "hatchling", "build", "-d", str(folder / "dist")], ROOT)
    assert made.returncode == 0, made.stderr
    return folder / "dist"


@pytest.mark.slow
def test_an_index_would_take_wheel_and_sdist(built: Path) -> None:
    files = sorted(map(str, built.iterdir()))
    assert [Path(file).suffix for file in files] == [".whl", ".gz"]
    python = str(built.parent / "builder" / "bin" / "python")
    checked = _run([python, "-m", "twine", "check", "--strict", *files], built)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert checked.stdout.count("PASSED") == 2


@pytest.mark.slow
def test_wheel_and_sdist_hold_the_zoo(built: Path) -> None:
    files = {f"autocl/zoo/{name}.{kind}" for name in zoo.names() for kind in ("safetensors", "md")}
    files.add(f"autocl/zoo/{zoo.RECORDS}")
    (wheel,), (sdist,) = built.glob("*.whl"), built.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        pages = {"autocl/tour/page.html", "autocl/figures/pages/base.html"}
        assert files | pages | {"autocl/py.typed"} <= set(archive.namelist())
    with tarfile.open(sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    beside = {"LICENSE", "CITATION.cff", "constraints.txt", "pyproject.toml"}
    assert {f"src/{file}" for file in files} | beside <= held
    assert not [name for name in held if name.startswith(("runs", "results", "docs", ".venv"))]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["whl", "tar.gz"])
def test_wheel_and_sdist_run_in_an_empty_environment(built: Path, tmp_path: Path, kind: str) -> None:
    python = _environment(tmp_path / "empty")
    away = tmp_path / "away"
    away.mkdir()
    (file,) = built.glob(f"*.{kind}")  # an sdist is built into a wheel by pip, with what it holds alone
    got = _run([python, "-m", "pip", "install", "-q", "-c", str(ROOT / "constraints.txt"), str(file)], away)
    assert got.returncode == 0, got.stderr
    where = _run([python, "-c", "import autocl; print(autocl.__file__)"], away)
    assert Path(where.stdout.strip()).is_relative_to(tmp_path / "empty"), where
    autocl = str(Path(python).with_name("autocl"))
    assert _run([autocl, "--version"], away).stdout.strip() == __version__
    listed = _run([autocl, "zoo"], away)
    assert all(name in listed.stdout for name in zoo.names()), listed
    shown = _run([autocl, "tour", "--runs", "1", "--shots", "5"], away)
    assert shown.returncode == 0, shown.stderr
    assert "everyday" in shown.stdout
    assert "everyday" in (away / "tour" / "index.html").read_text(encoding="utf-8")


def _environment(folder: Path) -> str:
    venv.create(folder, with_pip=True)
    return str(folder / "bin" / "python")


def _run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run it there, with nothing of this process' Python in the way."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    home = {} if "pip" in command else {"HOME": str(folder)}
    return subprocess.run(command, cwd=folder, env=clean | home, capture_output=True, text=True)
