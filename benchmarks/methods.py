"""What training ten runs side by side saves, and what the exact Fisher diagonal and OML's inner loop cost.

Run: python -m benchmarks.methods [--steps 20]

The network is that of the Split-MNIST table (1024 inputs, two hidden layers of 400, batch 128). Beside ours
stands the obvious way: one nn.Sequential for each run with torch.optim.Adam, and for the Fisher information
one backward pass for each example. Both do the same arithmetic; only shapes matter, so the pixels are noise.
For OML it is a new matrix of every layer for each of a task's 30 demos, as its definition has it, forward and
meta-gradient of 24 streams.
"""

import argparse
import time
from collections.abc import Callable
from statistics import median

import torch
from torch import nn
from torch.nn import functional as F

from autocl.baselines.mlp import BatchedMLP
from autocl.readouts.online import OnlineHead

RUNS, BATCH, SIZES = 10, 128, (1024, 400, 400, 2)


def clock(work: Callable[[], object], rounds: int) -> float:
    """Median milliseconds, after one round to warm up."""
    work()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        times.append(1e3 * (time.perf_counter() - start))
    return median(times)


def network() -> nn.Sequential:
    a, b, c, d = SIZES
    return nn.Sequential(nn.Linear(a, b), nn.ReLU(), nn.Linear(b, c), nn.ReLU(), nn.Linear(c, d))


def obvious_step(x: torch.Tensor, y: torch.Tensor) -> Callable[[], None]:
    pairs = [(net, torch.optim.Adam(net.parameters())) for net in (network() for _ in range(RUNS))]

    def step() -> None:
        for r, (net, adam) in enumerate(pairs):
            adam.zero_grad()
            F.cross_entropy(net(x[r]), y[r]).backward()
            adam.step()

    return step


def stacked_step(x: torch.Tensor, y: torch.Tensor) -> Callable[[], None]:
    stack = BatchedMLP(SIZES, seeds=range(RUNS))
    parameter = nn.Parameter(stack.flat)
    stack.flat = parameter.data
    adam = torch.optim.Adam([parameter], fused=True)
    parameter.grad = torch.empty_like(parameter)
    target = F.one_hot(y, SIZES[-1])

    def step() -> None:
        activity = stack.forward(x)
        stack.backward(activity, (activity[-1].softmax(-1) - target) / BATCH, out=parameter.grad)
        adam.step()

    return step


def obvious_fisher(x: torch.Tensor) -> Callable[[], list[torch.Tensor]]:
    net = network()

    def fisher() -> list[torch.Tensor]:
        total = [torch.zeros_like(p) for p in net.parameters()]
        for one in x:
            logits = net(one[None])
            net.zero_grad()
            F.cross_entropy(logits, logits.argmax(-1)).backward()
            for t, p in zip(total, net.parameters(), strict=True):
                t += p.grad**2
        return total

    return fisher


def stacked_fisher(x: torch.Tensor) -> Callable[[], torch.Tensor]:
    stack = BatchedMLP(SIZES, seeds=[0])

    def fisher() -> torch.Tensor:
        activity = stack.forward(x[None])
        answer = F.one_hot(activity[-1].argmax(-1), SIZES[-1])
        return stack.backward(activity, activity[-1].softmax(-1) - answer, each=torch.square)

    return fisher


STREAMS, DEMOS, FEATURES, HIDDEN, OUTPUTS, RATE = 24, 30, 128, 256, 10, 0.003


def obvious_online(head: OnlineHead, f: torch.Tensor, y: torch.Tensor) -> Callable[[], None]:
    target = F.one_hot(y, OUTPUTS).to(f.dtype)

    def learn() -> None:
        known = head.initial_state(STREAMS, OUTPUTS)
        w, b, v, c = (known[k] for k in ("first.weight", "first.bias", "last.weight", "last.bias"))
        for t in range(DEMOS):
            x = f[:, t : t + 1]
            h = F.relu(x @ w + b)
            delta = (h @ v + c).softmax(-1) - target[:, t : t + 1]
            back = (delta @ v.mT) * (h > 0)
            w, b = w - RATE * (x.mT @ back), b - RATE * back
            v, c = v - RATE * (h.mT @ delta), c - RATE * delta
        (w.square().sum() + v.square().sum()).backward()

    return learn


def kept_online(head: OnlineHead, f: torch.Tensor, y: torch.Tensor) -> Callable[[], None]:
    def learn() -> None:
        known = head.learn(f, y, head.initial_state(STREAMS, OUTPUTS))
        (known["first.weight"].square().sum() + known["last.weight"].square().sum()).backward()

    return learn


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=20, help="timed rounds of each")
    rounds = parser.parse_args().steps
    x, y = torch.randn(RUNS, BATCH, SIZES[0]), torch.randint(SIZES[-1], (RUNS, BATCH))
    head = OnlineHead(FEATURES, OUTPUTS, hidden=HIDDEN, rate=RATE)
    f, label = torch.rand(STREAMS, DEMOS, FEATURES), torch.randint(OUTPUTS, (STREAMS, DEMOS))
    for title, slow, fast in (
        (f"a step of {RUNS} runs", obvious_step(x, y), stacked_step(x, y)),
        (f"Fisher diagonal of {BATCH} examples", obvious_fisher(x[0]), stacked_fisher(x[0])),
        (f"OML, {DEMOS} steps and back", obvious_online(head, f, label), kept_online(head, f, label)),
    ):
        theirs, ours = clock(slow, rounds), clock(fast, rounds)
        print(f"{title}: {theirs:.1f} ms → {ours:.1f} ms, {theirs / ours:.1f}× faster")


if __name__ == "__main__":
    main()
