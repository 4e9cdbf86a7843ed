import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from autocl.objective import prototype_loss


def slow_loss(features: Tensor, classes: list[int]) -> Tensor:
    """For every image, distances to the class means without that image."""
    usable = [c for c in sorted(set(classes)) if classes.count(c) > 1]
    terms = []
    for u, own in enumerate(classes):
        if own not in usable:
            continue
        scores = []
        for c in usable:
            rows = [v for v, other in enumerate(classes) if other == c and v != u]
            scores.append(-(features[u] - features[rows].mean(0)).square().sum() / features.shape[1] ** 0.5)
        terms.append(F.cross_entropy(torch.stack(scores), torch.tensor(usable.index(own))))
    return torch.stack(terms).mean()


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=6, max_size=14), st.integers(0, 99))
def test_it_is_the_slow_definition_with_its_gradient(classes: list[int], seed: int) -> None:
    torch.manual_seed(seed)
    fast, slow = (torch.randn(len(classes), 5, dtype=torch.float64) for _ in range(2))
    slow = fast.clone().requires_grad_()
    fast.requires_grad_()
    loss = prototype_loss(fast, torch.tensor(classes) * 10 + 3)
    loss.backward()
    if sum(classes.count(c) > 1 for c in set(classes)) < 2:
        assert loss == 0
        assert fast.grad.abs().max() == 0
        return
    expected = slow_loss(slow, classes)
    expected.backward()
    torch.testing.assert_close(loss, expected, rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(fast.grad, slow.grad, rtol=1e-5, atol=1e-7)


def test_equal_features_have_a_finite_gradient() -> None:
    f = torch.zeros(6, 4, requires_grad=True)
    prototype_loss(f, torch.tensor([0, 0, 0, 1, 1, 1])).backward()
    assert f.grad.isfinite().all()
