"""Dropout, our kernel beside torch's, both passes, taking turns: `python -m benchmarks.dropout`."""

import torch
from benchmarks.training import take_turns
from torch.nn import functional as F

from autocl.ops.dropout import dropout, dropout_add, relu_dropout


def main() -> None:
    torch.set_num_threads(1)
    x = torch.randn(32, 75, 512, requires_grad=True)
    g = torch.randn_like(x)
    took = take_turns(
        {
            "torch": lambda: F.dropout(x, 0.1).backward(g),
            "ours": lambda: dropout(x, 0.1).backward(g),
            "a product, for comparison": lambda: (x * 1.1).backward(g),
            "h + dropout(x)": lambda: (x + dropout(x, 0.1)).backward(g),
            "dropout_add(h, x)": lambda: dropout_add(x, x, 0.1).backward(g),
            "dropout(relu(x))": lambda: dropout(x.relu(), 0.1).backward(g),
            "relu_dropout(x)": lambda: relu_dropout(x, 0.1).backward(g),
        },
        20,
    )
    for name, t in took.items():
        print(f"{name:<26}{1e3 * t.cpu:7.2f} ms for {x.numel():,} elements, both passes")
    print(f"ours is {took['torch'].cpu / took['ours'].cpu:.0f}× as fast")


if __name__ == "__main__":
    main()
