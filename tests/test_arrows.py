"""The arrows of the design: who may import whom, held by reading every import, also inside functions."""

import ast
import importlib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "autocl"

GROUND = {"", "config", "errors", "files", "matrix", "names", "pictures", "progress", "typed_json"}
"""Everybody may import these, and they only each other; "" is the package itself, for its version."""

PARTS = {"ops", "layers", "encoders", "readouts"}
MODEL = {*PARTS, "zoo", "learner"}
PASSAGE = {*MODEL, "data", "passage", "objective"}
"""A passage knows both models and data; they do not know each other."""
USES = {*PASSAGE, "baselines", "recipes", "training", "evaluation", "estimator"}

MAY_IMPORT = {
    **{name: set() for name in GROUND},
    "__init__": USES,  # names that are loaded when they are first used
    "ops": set(),
    "layers": {"ops"},
    "encoders": {"ops", "layers"},
    "readouts": {"ops", "layers"},
    "zoo": set(),  # only names and files
    "learner": {*PARTS, "zoo"},
    "data": {"ops"},  # kernels on pixels
    "passage": {*MODEL, "data", "baselines"},  # it takes methods, and learners as methods, through streams
    "objective": {*MODEL, "data", "passage"},
    "baselines": {*MODEL, "data"},
    "training": PASSAGE,
    "recipes": {*PASSAGE, "training"},
    "evaluation": {*PASSAGE, "baselines"},
    "estimator": PASSAGE,
    "figures": USES,
    "tour": {*USES, "figures"},
    "play": {*USES, "figures"},
    "cli": {*USES, "figures", "tour", "play"},
    "__main__": {"cli"},
}
"""For each room of src/autocl, the rooms below it."""


def room(module: str) -> str:
    """The package or module directly under autocl that a module belongs to.

    Example: autocl.data.sets.cifar -> data
    """
    return module.partition(".")[2].partition(".")[0]


def imports(path: Path) -> Iterator[str]:
    """The modules of autocl that a file imports, but for those that only the type checker sees."""
    waiting: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            waiting += node.orelse
            continue
        waiting += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("autocl"))
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: say which package is meant instead of importing relatively"
            if node.module == "autocl":
                yield from (
                    f"autocl.{alias.name}" if _is_room(alias.name) else "autocl" for alias in node.names
                )
            elif node.module and node.module.startswith("autocl."):
                yield node.module


def _is_room(name: str) -> bool:
    return (SOURCE / name).is_dir() or (SOURCE / f"{name}.py").is_file()


def _against() -> dict[tuple[str, str], list[str]]:
    """(importer, imported) against the arrows, with the files that do it."""
    found = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        importer = room(".".join(("autocl", *path.relative_to(SOURCE).with_suffix("").parts)))
        for module in imports(path):
            if room(module) not in {importer, *GROUND, *MAY_IMPORT[importer]}:
                found[importer, room(module)].append(str(path.relative_to(SOURCE)))
    return dict(found)


def test_every_room_has_a_place_in_the_table() -> None:
    rooms = {p.stem for p in SOURCE.iterdir() if p.suffix == ".py" or (p / "__init__.py").is_file()}
    assert rooms <= set(MAY_IMPORT)


def test_no_two_rooms_may_import_each_other() -> None:
    assert not [(a, b) for a, below in MAY_IMPORT.items() for b in below if a in MAY_IMPORT[b] or a == b]


def test_imports_follow_the_arrows() -> None:
    assert not _against(), "imports against the arrows of MAY_IMPORT"


def test_imports_are_found_wherever_they_stand(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text(
        "import autocl.ops.srwm as s\nfrom autocl import __version__, zoo\nfrom typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from autocl.cli import main\n"
        "class A:\n    def f(self):\n        from autocl.data.sets import cifar\n"
    )
    assert sorted(map(room, imports(tmp_path / "x.py"))) == ["", "data", "ops", "zoo"]


@pytest.mark.parametrize("name", ["srwm", "delta", "conv_blocks", "dropout"])
def test_an_op_is_a_package(name: str) -> None:
    ops = importlib.import_module("autocl.ops")
    importlib.import_module(f"autocl.ops.{name}.cpu")
    assert isinstance(getattr(ops, name), ModuleType)


def test_a_backend_can_be_imported_by_its_path() -> None:
    import autocl.ops.srwm.cpu as backend

    assert callable(backend.srwm_cpu)
