import pytest
import torch
from textbook_mlp import example_gradients, reference_logits
from torch.nn import functional as F

from autocl.baselines.mlp import BatchedMLP

SIZES = (5, 7, 6, 3)


def test__forward__equals_the_textbook_for_every_run():
    stack, x = BatchedMLP(SIZES, seeds=(3, 4)), torch.randn(2, 9, 5)
    logits = stack.forward(x.clone())[-1]
    for r in range(2):
        torch.testing.assert_close(logits[r], reference_logits(stack, stack.flat[r], x[r]))


@pytest.mark.parametrize("each", [None, torch.square, torch.abs])
def test__backward__sums_a_function_of_each_examples_gradient(each):
    stack, x, y = BatchedMLP(SIZES, seeds=(3, 4)), torch.randn(2, 9, 5), torch.randint(3, (2, 9))
    activity = stack.forward(x.clone())
    delta = activity[-1].softmax(-1) - F.one_hot(y, 3)
    total = stack.backward(activity, delta, each=each)
    for r in range(2):
        exact = example_gradients(stack, stack.flat[r], x[r], y[r])
        torch.testing.assert_close(total[r], (exact if each is None else each(exact)).sum(0))


def test__seeds__make_a_run_the_same_in_any_company():
    alone, together = BatchedMLP(SIZES, seeds=(4,)), BatchedMLP(SIZES, seeds=(3, 4, 5))
    assert torch.equal(alone.flat[0], together.flat[1])
    assert not torch.equal(together.flat[0], together.flat[1])
    weight, bias = next(together.layers(together.flat))
    assert max(weight.abs().max(), bias.abs().max()) <= 5**-0.5


def test__with_weights__shares_nothing_but_the_form():
    stack = BatchedMLP(SIZES, seeds=(1,))
    other = stack.with_weights(stack.flat.clone())
    stack.flat.zero_()
    assert other.sizes == SIZES
    assert other.flat.abs().sum() > 0
