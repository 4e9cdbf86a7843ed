import pytest
import torch

from autocl.readouts import State
from autocl.readouts.ridge import KernelReadout, NetworkReadout, RidgeReadout, SolvePositive

SHAPE = {"features": 6, "keys": 5}


@pytest.fixture(params=["linear keys", "hidden layer", "kernel"])
def readout(request: pytest.FixtureRequest) -> RidgeReadout:
    torch.manual_seed(0)
    if request.param == "kernel":
        return KernelReadout(**SHAPE).double()
    return NetworkReadout(**SHAPE, hidden=7 if request.param == "hidden layer" else 0).double()


@pytest.fixture
def network() -> NetworkReadout:
    torch.manual_seed(0)
    return NetworkReadout(**SHAPE, hidden=7).double()


@pytest.fixture
def kernel() -> KernelReadout:
    torch.manual_seed(0)
    return KernelReadout(**SHAPE).double()


def demos(n: int = 9) -> tuple[torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(1)
    f = torch.randn(2, n, 6, generator=g, dtype=torch.float64)
    return f, torch.randint(3, (2, n), generator=g)


def test_scores_minimise_the_ridge_objective(readout: RidgeReadout) -> None:
    f, y = demos()
    query = torch.randn(2, 4, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    scores = readout.read(query, readout.learn(f, y, readout.initial_state(2, 3)))
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
    whole = readout.learn(f, y, readout.initial_state(2, 3))
    turned = readout.learn(f.flip(1)[:, :4], y.flip(1)[:, :4], readout.initial_state(2, 3))
    turned = readout.learn(f.flip(1)[:, 4:], y.flip(1)[:, 4:], turned)
    for name in whole:
        torch.testing.assert_close(turned[name], whole[name])


def test_gradients_reach_features_and_every_parameter(readout: RidgeReadout) -> None:
    f, y = demos()
    f.requires_grad_()
    state = readout.learn(f, y, readout.initial_state(2, 3))
    readout.join(torch.ones(2, 9, 3), f, state).square().sum().backward()
    for name, p in [("features", f), *readout.named_parameters()]:
        assert p.grad is not None, name
        assert p.grad.abs().sum() > 0, name


def test_gradient_of_the_solution_is_that_of_finite_differences() -> None:
    g = torch.Generator().manual_seed(3)
    root = torch.randn(2, 4, 4, generator=g, dtype=torch.float64, requires_grad=True)
    C = torch.randn(2, 4, 3, generator=g, dtype=torch.float64, requires_grad=True)

    def solve(root: torch.Tensor, C: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor
        result, _ = SolvePositive.apply(root @ root.mT + torch.eye(4, dtype=torch.float64), C)
        return result

    assert torch.autograd.gradcheck(solve, (root, C))


def test_voices_follow_how_well_the_demos_of_a_stream_are_told_apart(network: NetworkReadout) -> None:
    f, y = demos()
    state = network.learn(f, y, network.initial_state(2, 3))
    scores = network.read(f, state) / network.log_scale.exp()
    with torch.no_grad():
        network.trust.copy_(torch.tensor([0.07, -0.04]))
    body = torch.randn(2, 9, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    answer = network.join(body, f, state)
    for b in range(2):
        fit = scores[b, torch.arange(9), y[b]].mean() - 0.5
        scale, gate = (network.log_scale + 0.7 * fit).exp(), (network.log_gate - 0.4 * fit).exp()
        torch.testing.assert_close(answer[b], scale * scores[b] + gate * body[b])


def test_before_the_first_demo_only_the_body_speaks(network: NetworkReadout) -> None:
    f, _ = demos()
    with torch.no_grad():
        network.trust.fill_(0.1)
    body = torch.ones(2, 9, 3, dtype=torch.float64)
    answer = network.join(body, f, network.initial_state(2, 3))
    torch.testing.assert_close(answer, (network.log_gate - 0.5).exp() * body)


def doubt_of(kernel: KernelReadout, f: torch.Tensor, state: State) -> torch.Tensor:
    """What the body's logits are multiplied with, asked through the answers."""
    doubt = kernel.join(torch.ones(*f.shape[:2], 3).double(), f, state) - kernel.read(f, state)
    return doubt[..., 0]


def test_doubt_is_the_share_of_the_key_that_the_demos_leave_out(kernel: KernelReadout) -> None:
    f, y = demos()
    empty = kernel.initial_state(2, 3)
    torch.testing.assert_close(doubt_of(kernel, f, empty), torch.ones(2, 9, dtype=torch.float64))
    state = kernel.learn(f, y, empty)
    before, after = doubt_of(kernel, f, state), doubt_of(kernel, f, kernel.learn(f, y, state))
    assert torch.all(after < before)
    k, penalty = kernel._keys(f[0, :1])[0], kernel.log_ridge.exp()
    shrunk = penalty * torch.linalg.inv(state["A"][0] + penalty * torch.eye(5, dtype=torch.float64))
    torch.testing.assert_close(before[0, 0], k @ shrunk @ k / (k @ k))


def test_products_of_keys__many__are_a_gaussian_kernel_of_the_directions() -> None:
    torch.manual_seed(0)
    readout = KernelReadout(features=8, keys=20001)
    f = torch.randn(12, 8)
    k, x = readout.make_keys(f), torch.nn.functional.normalize(f, dim=-1)
    kernel = torch.exp(-torch.cdist(x, x).square())
    torch.testing.assert_close(k @ k.T, kernel, atol=0.03, rtol=0)
