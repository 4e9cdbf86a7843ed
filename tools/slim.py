"""Take out of an environment what only its packages' own developers need: `python tools/slim.py`.

Test programs and C++ headers of PyTorch, test suites and C sources of the others, and, where binutils are
installed, symbol tables that only debuggers read: a third of a gigabyte. `make demo` calls it, so that a
first look costs less than a gigabyte; `make test` puts PyTorch back as it was.
"""

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

TESTED = ("matplotlib", "mpl_toolkits", "networkx", "numba", "numpy", "scipy", "sklearn", "sympy")
"""Packages that install their tests, in folders that nothing else imports."""
SOURCES = (".a", ".c", ".cpp", ".h", ".hpp", ".pxd", ".pyx")
"""What only compilers read."""
NEEDED = "torch_shm_manager"
"""The one program in torch/bin that is used at run time."""
SYMBOLS = ("torch/lib/libtorch_cpu.so", "torch/lib/libtorch_python.so", "llvmlite/binding/libllvmlite.so")
"""Libraries with a tenth of a gigabyte of names of functions that nothing calls by name."""


def size(folder: Path) -> int:
    """Bytes of all files in a folder, links not followed; `du -sb` adds 4,096 for each folder."""
    return sum(file.lstat().st_size for file in folder.rglob("*") if file.is_symlink() or file.is_file())


def slim(packages: Path) -> None:
    """Delete it all."""
    doomed = [packages / "torch" / "test", packages / "torch" / "include", packages / "torch" / "share"]
    for name in TESTED:
        doomed += [folder for folder in (packages / name).rglob("tests") if folder.is_dir()]
    for folder in doomed:
        shutil.rmtree(folder, ignore_errors=True)  # it may have been inside of one that is gone
    for file in packages.rglob("*"):
        program = file.parent == packages / "torch" / "bin" and file.name != NEEDED
        if file.is_file() and (program or file.suffix in SOURCES):
            file.unlink()
    if strip := shutil.which("strip"):
        for library in SYMBOLS:
            if (file := packages / library).is_file():
                # What fails leaves the file as it was: strip writes beside it.
                subprocess.run([strip, "--strip-unneeded", file], check=False, capture_output=True)


def main() -> None:
    """Slim this environment, and say how large it is then."""
    environment = Path(sys.prefix)
    before = size(environment)
    slim(Path(sysconfig.get_path("purelib")))
    now = size(environment)
    gone = (before - now) / 1e9
    print(f"{environment.name} has {now / 1e9:.2f} GB; {gone:.2f} GB of tests, sources, symbols taken out")


if __name__ == "__main__":
    main()
