"""BatchedMLP: the networks of many runs, trained side by side as one batch of matrices.

Shape legend: R = runs, B = examples of each run, D = inputs, N = outputs, P = parameters of one network.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import torch
from torch import Tensor


class BatchedMLP:
    """R ReLU networks of the same form with biases, in one flat tensor.

    The parameters of run r are row r of `flat`: what an optimiser or a regulariser does to a network is
    arithmetic on [R, P]. The backward pass is written out, because that gives more than the gradient: the
    gradient of one example is an outer product a δᵀ at each layer, so sums over examples of its squares or
    magnitudes are matrix products as well, Σ (a δᵀ)² = (a²)ᵀ δ², at the price of one ordinary gradient.

    Args:
        sizes: D, the hidden layers, N.
        seeds: one for each run; initial weights and biases are uniform within ±1/√inputs, as in nn.Linear.

    Example:
        >>> stack = BatchedMLP((4, 8, 3), seeds=(0, 1))
        >>> stack.flat.shape, stack.forward(torch.zeros(2, 5, 4))[-1].shape
        (torch.Size([2, 67]), torch.Size([2, 5, 3]))
    """

    def __init__(self, sizes: Sequence[int], seeds: Sequence[int]) -> None:
        self.sizes = tuple(sizes)
        n_parameters = sum((before + 1) * after for before, after in pairwise(self.sizes))
        self.flat = torch.empty(len(seeds), n_parameters)
        for row, seed in enumerate(seeds):
            generator = torch.Generator().manual_seed(seed)
            for weight, bias in self.layers(self.flat[row : row + 1]):
                bound = weight.shape[1] ** -0.5
                weight.uniform_(-bound, bound, generator=generator)
                bias.uniform_(-bound, bound, generator=generator)

    def layers(self, flat: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Views into a tensor [R, P]: weight [R, in, out] and bias [R, out] of each layer."""
        start = 0
        for before, after in pairwise(self.sizes):
            end = start + before * after
            yield flat[:, start:end].view(len(flat), before, after), flat[:, end : end + after]
            start = end + after

    def forward(self, x: Tensor) -> list[Tensor]:
        """Inputs x [R, B, D] -> the input of every layer, and last the logits [R, B, N]."""
        activity = [x]
        for weight, bias in self.layers(self.flat):
            if len(activity) > 1:
                activity[-1].relu_()
            activity.append(torch.baddbmm(bias[:, None], activity[-1], weight))
        return activity

    def backward(
        self,
        activity: list[Tensor],
        delta: Tensor,
        *,
        each: Callable[[Tensor], Tensor] | None = None,
        out: Tensor | None = None,
    ) -> Tensor:
        """Sum over the examples of their gradients, or of a function of each one's gradient.

        Args:
            activity: what `forward` returned.
            delta: [R, B, N], derivative of the loss by the logits.
            each: applied to the gradient of every single example before summing; must be multiplicative,
                |·| or a power: each(ab) = each(a) each(b).
            out: written and returned instead of a new tensor; new memory every step costs a tenth of it.

        Returns:
            [R, P].
        """
        total = torch.empty_like(self.flat) if out is None else out
        parameters, sums = list(self.layers(self.flat)), list(self.layers(total))
        for depth in reversed(range(len(parameters))):
            a, d = activity[depth], delta
            if each is not None:
                a, d = each(a), each(d)
            weight_sum, bias_sum = sums[depth]
            torch.bmm(a.mT, d, out=weight_sum)
            torch.sum(d, dim=1, out=bias_sum)
            if depth > 0:
                delta = torch.bmm(delta, parameters[depth][0].mT).mul_(activity[depth] > 0)
        return total

    def with_weights(self, flat: Tensor) -> "BatchedMLP":
        """Networks of the same form with other weights [R, P]."""
        other = BatchedMLP(self.sizes, seeds=())
        other.flat = flat
        return other
