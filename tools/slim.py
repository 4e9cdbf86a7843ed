"""Take out of an environment what only its packages' own developers need: `python tools/slim.py`.

Test programs and C++ headers of PyTorch, test suites of the others: a quarter of a gigabyte. `make demo`
calls it, so that a first look costs less than a gigabyte; `make test` puts PyTorch back as it was.
"""

import shutil
import sysconfig
from pathlib import Path

TESTED = ("matplotlib", "mpl_toolkits", "networkx", "numba", "numpy", "scipy", "sklearn", "sympy")
"""Packages that install their tests, in folders that nothing else imports."""
NEEDED = "torch_shm_manager"
"""The one program in torch/bin that is used at run time."""


def slim(packages: Path) -> int:
    """Delete it all; returns the bytes that are free now."""
    doomed = [packages / "torch" / "test", packages / "torch" / "include"]
    for name in TESTED:
        doomed += [folder for folder in (packages / name).rglob("tests") if folder.is_dir()]
    programs = (packages / "torch" / "bin").glob("*")
    files = [file for file in programs if file.is_file() and file.name != NEEDED]
    free = sum(file.stat().st_size for file in files)
    for file in files:
        file.unlink()
    for folder in doomed:
        if folder.is_dir():  # it may have been inside of one that is gone
            free += sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
            shutil.rmtree(folder)
    return free


if __name__ == "__main__":
    print(f"{slim(Path(sysconfig.get_path('purelib'))) / 1e9:.2f} GB of tests and headers taken out")
