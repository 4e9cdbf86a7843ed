"""The SRWM recurrence side by side: numba kernel, PyTorch loop, compiled loop, recomputing loop.

Everything is measured in one run, the candidates taking turns, so that other load on the machine hits all
alike; what counts are the ratios. Peak memory is what a pass keeps between forward and backward.
"""

import argparse
import time
from collections.abc import Callable

import numba
import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from autocl import Learner, LearnerConfig
from autocl.ops.srwm import srwm
from autocl.ops.srwm.naive import srwm_naive
from autocl.ops.srwm.simd import load, store

SHAPES = [(16, 16, 150, 16), (64, 16, 150, 16), (1, 16, 1, 16), (16, 8, 150, 32)]


def make(B: int, H: int, T: int, D: int) -> tuple[Tensor, Tensor]:
    g = torch.Generator().manual_seed(0)
    u = torch.randn(B, H, T, D, generator=g)
    W = torch.randn(B, H, 3 * D + 4, D, generator=g) / D**0.5
    return u.requires_grad_(), W.requires_grad_()


def flops(B: int, H: int, T: int, D: int) -> tuple[float, float]:
    """Multiply-adds of the matrix products as computed, forward and forward + backward."""
    product = B * H * T * (3 * D + 4) * D
    return 3.0 * product, 3.0 * product + 7.0 * product


@numba.njit(fastmath={"contract"})
def _fma(x: np.ndarray, rounds: int) -> None:
    """Twelve registers, each multiplied and added to by itself: nothing touches memory inside the loop."""
    m, c = load(x, 0), load(x, 8)
    a0 = a1 = a2 = a3 = a4 = a5 = load(x, 16)
    b0 = b1 = b2 = b3 = b4 = b5 = load(x, 24)
    for _ in range(rounds):
        a0, a1, a2, a3, a4, a5 = a0 * m + c, a1 * m + c, a2 * m + c, a3 * m + c, a4 * m + c, a5 * m + c
        b0, b1, b2, b3, b4, b5 = b0 * m + c, b1 * m + c, b2 * m + c, b3 * m + c, b4 * m + c, b5 * m + c
    store(x, 16, a0 + a1 + a2 + a3 + a4 + a5 + b0 + b1 + b2 + b3 + b4 + b5)


def fma_peak() -> float:
    """float32 multiply-adds a second of one core, all operands in registers, times the threads in use."""
    x = np.full(32, 0.5, np.float32)
    _fma(x, 10)
    best = 0.0
    for _ in range(100):
        started = time.perf_counter()
        _fma(x, 50_000)
        best = max(best, 50_000 * 12 * 8 / (time.perf_counter() - started))
    return best * torch.get_num_threads()


def best_of(candidates: dict[str, Callable[[], object]], seconds: float) -> dict[str, float]:
    """Smallest time of each candidate, taking turns until the time is up.

    A turn is at least a tenth of a second, so that a quick candidate is not measured with the caches and
    freed memory that a slow one left behind.
    """
    best = dict.fromkeys(candidates, float("inf"))
    deadline = time.perf_counter() + seconds
    while True:
        for name, run in candidates.items():
            turn = time.perf_counter() + 0.1
            while (started := time.perf_counter()) < turn:
                run()
                best[name] = min(best[name], time.perf_counter() - started)
        if time.perf_counter() > deadline:
            return best


def saved_floats(run: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]], u: Tensor, W: Tensor) -> float:
    """Floats kept for the backward pass, per token and head, beyond the input and the two outputs."""
    kept: dict[int, int] = {}

    def note(t: Tensor) -> Tensor:
        kept[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes() // t.element_size()
        return t

    with torch.autograd.graph.saved_tensors_hooks(note, lambda t: t):
        y, W_final = run(u, W)
    for known in (u, W, y, W_final):
        kept.pop(known.untyped_storage().data_ptr(), None)
    return sum(kept.values()) / (u.numel() / u.shape[-1])


def compare(shape: tuple[int, int, int, int], compiled: bool, seconds: float, peak: float) -> Table:
    u, W = make(*shape)
    runs: dict[str, Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]] = {
        "numba kernel": lambda u, W: srwm(u, W, backend="cpu"),
        "PyTorch loop": srwm_naive,
        "recomputing loop": lambda u, W: srwm(u, W, backend="recompute"),
    }
    if compiled:
        # A whole unrolled segment takes minutes to compile; ten steps at a time show what fusion gives.
        torch._dynamo.reset()  # each shape is compiled anew; too many for one function would fall back
        ten = torch.compile(srwm_naive, dynamic=False)

        def in_tens(u: Tensor, W: Tensor) -> tuple[Tensor, Tensor]:
            ys = []
            for part in u.split(10, dim=2):
                y, W = ten(part, W)
                ys.append(y)
            return torch.cat(ys, 2), W

        runs["compiled loop"] = in_tens
    upstream = tuple(torch.randn_like(t) for t in srwm_naive(u, W))
    forward, both = {}, {}
    for name, run in runs.items():

        def step(run: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]] = run) -> None:
            torch.autograd.grad(run(u, W), (u, W), upstream)

        def only(run: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]] = run) -> None:
            with torch.no_grad():
                run(u, W)

        only(), step()  # compile, warm up
        forward[name], both[name] = only, step
    f, fb = best_of(forward, seconds), best_of(both, seconds)
    table = Table(title=f"B {shape[0]}, H {shape[1]}, T {shape[2]}, D {shape[3]}", title_justify="left")
    for column in ("", "forward", "× loop", "both passes", "× loop", "kept floats/token/head", "of FMA peak"):
        table.add_column(column, justify="right")
    ops_f, ops_b = flops(*shape)
    for name, run in runs.items():
        table.add_row(
            name, f"{1e3 * f[name]:.3f} ms", f"{f['PyTorch loop'] / f[name]:.1f}",
            f"{1e3 * fb[name]:.3f} ms", f"{fb['PyTorch loop'] / fb[name]:.1f}",
            f"{saved_floats(run, u, W):.0f}",
            f"{100 * ops_f / f[name] / peak:.0f} / {100 * ops_b / fb[name] / peak:.0f} %",
        )  # fmt: skip
    return table


def online(seconds: float) -> str:
    """One example learned online by the paper's 5-way learner, beside its bare encoder."""
    learner = Learner(LearnerConfig(n_classes=5)).eval()
    x, y = torch.randn(1, 1, 3, 32, 32), torch.zeros(1, 1, dtype=torch.int64)
    with torch.inference_mode():
        state = learner.initial_state()
        times = best_of(
            {"learn": lambda: learner.learn(x, y, state), "encode": lambda: learner.encoder(x[0])}, seconds
        )
    ratio = times["learn"] / times["encode"]
    return (
        f"one example: learn {1e3 * times['learn']:.2f} ms, bare Conv-4 {1e3 * times['encode']:.2f} ms: "
        f"{ratio:.2f} times (target: at most 3)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=8.0, help="per shape and pass")
    parser.add_argument("--compiled", action="store_true", help="also torch.compile the loop (slow to start)")
    args = parser.parse_args()
    console = Console(width=130)
    peak = fma_peak()
    console.print(f"{torch.get_num_threads()} threads, measured peak {peak / 1e9:.1f} G multiply-adds/s")
    for shape in SHAPES:
        console.print(compare(shape, args.compiled and shape[2] > 1, args.seconds, peak))
        D = shape[3]
        console.print(f"kept by the kernel must stay below 4(3D+4) = {4 * (3 * D + 4)}\n")
    console.print(online(args.seconds))


if __name__ == "__main__":
    main()
