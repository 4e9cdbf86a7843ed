"""Compiles the kernels to GPU machine code (ptxas comes with triton; no GPU needed) and looks for spills.

Run as a script, in a process where triton is not interpreting; prints one line per kernel and head size.
"""

import inspect
import re
import subprocess
import tempfile
from pathlib import Path

import triton
from triton.backends.compiler import GPUTarget

from autocl.ops.delta import triton as delta
from autocl.ops.srwm import triton as srwm

CAPABILITY = 80  # A100; its 255 registers per thread are the limit of every later generation, too
PTXAS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "ptxas"


def spilled_bytes(kernel: triton.JITFunction, constants: dict[str, int | bool], num_warps: int) -> int:
    """Compile for float32 data and return the bytes of registers that ptxas had to spill."""
    signature = {
        name: "constexpr" if name in constants else "*fp32" if name.endswith("_ptr") else "i32"
        for name in inspect.signature(kernel.fn).parameters
    }
    source = triton.compiler.ASTSource(kernel, signature=signature, constexprs=constants)
    target = GPUTarget("cuda", CAPABILITY, 32)
    options = {"num_warps": num_warps, "enable_fp_fusion": True}
    compiled = triton.compile(source, target=target, options=options)
    with tempfile.TemporaryDirectory() as folder:
        ptx = Path(folder) / "kernel.ptx"
        ptx.write_text(compiled.asm["ptx"])
        command = [PTXAS, "-v", f"--gpu-name=sm_{CAPABILITY}", ptx, "-o", Path(folder) / "kernel.cubin"]
        report = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    found = re.search(r"(\d+) bytes spill stores", report)
    assert found, report
    return int(found[1])


def check(label: str, kernel: triton.JITFunction, constants: dict[str, int | bool], num_warps: int) -> None:
    spilled = spilled_bytes(kernel, constants, num_warps)
    print(f"{label}: {spilled} bytes spilled with {num_warps} warps")
    assert spilled == 0, label


if __name__ == "__main__":
    for D in (4, 5, 16, 32, 64):
        options = srwm._launch_options(D)
        sizes = {"D": D, "P": options["P"]}
        check(f"srwm forward D={D}", srwm._forward_kernel, sizes | {"SAVE": True}, options["num_warps"])
        check(f"srwm backward D={D}", srwm._backward_kernel, sizes, options["num_warps"])
    for D, additive in ((4, False), (5, True), (16, False), (32, False), (64, False), (64, True)):
        options = delta._launch_options(D)
        sizes = {"D": D, "P": options["P"], "ADDITIVE": additive}
        kind = f"D={D} additive={additive}"
        check(f"delta forward {kind}", delta._forward_kernel, sizes | {"SAVE": True}, options["num_warps"])
        check(f"delta backward {kind}", delta._backward_kernel, sizes, options["num_warps"])
    check("srwm forward that keeps nothing", srwm._forward_kernel, {"D": 16, "P": 16, "SAVE": False}, 1)
