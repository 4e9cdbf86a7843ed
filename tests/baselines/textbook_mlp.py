"""The network of a stack and its per-example gradients as in the textbook: slow and obvious."""

import torch
from torch import Tensor
from torch.nn import functional as F

from autocl.baselines.mlp import BatchedMLP


def reference_logits(stack: BatchedMLP, flat: Tensor, x: Tensor) -> Tensor:
    """One network [P] on x [B, D], by the textbook."""
    h = x
    layers = list(stack.layers(flat[None]))
    for depth, (weight, bias) in enumerate(layers):
        h = h @ weight[0] + bias[0]
        if depth < len(layers) - 1:
            h = F.relu(h)
    return h


def example_gradients(stack: BatchedMLP, flat: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """[B, P]: gradient of each example's cross-entropy, one backward pass each."""
    rows = []
    for i in range(len(x)):
        leaf = flat.clone().requires_grad_()
        F.cross_entropy(reference_logits(stack, leaf, x[i : i + 1]), y[i : i + 1]).backward()
        assert leaf.grad is not None
        rows.append(leaf.grad)
    return torch.stack(rows)
