import pytest
import torch

from autocl.layers.ridge import RidgeReadout, SolvePositive


@pytest.fixture(params=[0, 7], ids=["linear keys", "hidden layer"])
def readout(request: pytest.FixtureRequest) -> RidgeReadout:
    torch.manual_seed(0)
    return RidgeReadout(features=6, n_classes=3, keys=5, hidden=request.param).double()


def demos(n: int = 9) -> tuple[torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(1)
    f = torch.randn(2, n, 6, generator=g, dtype=torch.float64)
    return f, torch.randint(3, (2, n), generator=g)


def test_scores_minimise_the_ridge_objective(readout: RidgeReadout) -> None:
    f, y = demos()
    query = torch.randn(2, 4, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    scores = readout.read(query, readout.learn(f, y, readout.initial_state(2)))
    for b in range(2):
        # Ridge regression is least squares with √λ·I appended to the keys and zeros to the targets.
        penalty = readout.log_ridge.exp().sqrt() * torch.eye(5, dtype=torch.float64)
        k = torch.cat([readout._keys(f[b]), penalty])
        target = torch.cat([torch.eye(3, dtype=torch.float64)[y[b]], torch.zeros(5, 3, dtype=torch.float64)])
        weights = torch.linalg.lstsq(k, target).solution
        expected = readout.log_scale.exp() * readout._keys(query[b]) @ weights
        torch.testing.assert_close(scores[b], expected)


def test_order_and_segments_do_not_matter(readout: RidgeReadout) -> None:
    f, y = demos()
    whole = readout.learn(f, y, readout.initial_state(2))
    turned = readout.learn(f.flip(1)[:, :4], y.flip(1)[:, :4], readout.initial_state(2))
    turned = readout.learn(f.flip(1)[:, 4:], y.flip(1)[:, 4:], turned)
    for name in whole:
        torch.testing.assert_close(turned[name], whole[name])


def test_gradients_reach_features_and_every_parameter(readout: RidgeReadout) -> None:
    f, y = demos()
    f.requires_grad_()
    scores = readout.read(f, readout.learn(f, y, readout.initial_state(2)))
    readout.join(torch.ones_like(scores), scores).square().sum().backward()
    for name, p in [("features", f), *readout.named_parameters()]:
        assert p.grad is not None, name
        assert p.grad.abs().sum() > 0, name


def test_gradient_of_the_solution_is_that_of_finite_differences() -> None:
    g = torch.Generator().manual_seed(3)
    root = torch.randn(2, 4, 4, generator=g, dtype=torch.float64, requires_grad=True)
    C = torch.randn(2, 4, 3, generator=g, dtype=torch.float64, requires_grad=True)

    def solve(root: torch.Tensor, C: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = SolvePositive.apply(root @ root.mT + torch.eye(4, dtype=torch.float64), C)
        return result

    assert torch.autograd.gradcheck(solve, (root, C))
