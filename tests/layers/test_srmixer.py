import pytest
import torch

from autocl.encoders import Patches
from autocl.errors import AutoclError
from autocl.layers.base import StackConfig
from autocl.layers.srmixer import PatchInput, PatchMean, PatchMixing, self_referential_mixer


@pytest.mark.parametrize("axis", ["tokens", "channels"])
def test_mixing_keeps_the_contract_of_a_layer(layer_checks, axis):
    layer_checks(PatchMixing(axis=axis, n_patches=4, embedding=6, heads=2), 24).all()


def test_the_mean_is_stateless():
    layer = PatchMean(n_patches=2)
    out, state = layer(torch.arange(6.0).view(1, 1, 6), layer.initial_state(1))
    assert state == {}
    assert out.tolist() == [[[1.5, 2.5, 3.5]]]


def test_every_patch_gets_its_own_pixels_and_the_same_label():
    torch.manual_seed(0)
    layer = PatchInput(n_patches=3, patch_features=4, n_labels=2, embedding=5).double()
    x = torch.randn(2, 7, 3 * 4 + 2, dtype=torch.float64)
    out = layer(x).unflatten(-1, (3, 5))
    for p in range(3):
        alone = torch.cat([x[..., 4 * p : 4 * p + 4], x[..., -2:]], dim=-1)
        torch.testing.assert_close(out[..., p, :], alone @ layer.weight.T + layer.bias)


@pytest.mark.parametrize("axis", ["tokens", "channels"])
def test_the_recurrence_mixes_along_its_axis_only(axis):
    layer = PatchMixing(axis=axis, n_patches=3, embedding=4, dropout=0.0).double()
    h = torch.randn(1, 5, 12, dtype=torch.float64, requires_grad=True)
    _, state = layer(h, layer.initial_state(1))
    # Of the first stream: channel 0 for "tokens", patch 0 for "channels".
    (g,) = torch.autograd.grad(state["W"][0, 0].square().sum(), h)
    touched = (g.view(5, 3, 4) != 0).any(0)
    expected = torch.zeros(3, 4, dtype=torch.bool)
    if axis == "tokens":
        expected[:, 0] = True
    else:
        expected[0, :] = True
    assert torch.equal(touched, expected)


def test_too_many_patches_are_refused():
    with pytest.raises(AutoclError, match="at most 64 patches of an image, got 65; choose larger patches"):
        PatchMixing(axis="tokens", n_patches=65, embedding=4)


def test_the_whole_stack_learns_two_images_in_context():
    """Meta-train for a moment: after one demo each, the two images are told apart, whatever their labels."""
    torch.manual_seed(0)
    patches = Patches(channels=1, height=8, width=8, patch=4)
    first = PatchInput(n_patches=4, patch_features=16, n_labels=3, embedding=16)
    with torch.no_grad():
        first.weight[:, 16:] *= 10
    stack = self_referential_mixer(StackConfig(n_patches=4, width=16, heads=2, depth=1, dropout=0.0))
    head = torch.nn.Linear(16, 2)
    parameters = [*first.parameters(), *stack.parameters(), *head.parameters()]
    optimiser = torch.optim.Adam(parameters, lr=3e-3)

    def accuracy_and_loss():
        labels = torch.rand(32, 2).argsort(-1)
        images = torch.randn(32, 2, 1, 8, 8)
        pixels = patches(images.flatten(0, 1)).view(32, 2, -1)
        h = first(torch.cat([pixels, torch.eye(3)[labels]], dim=-1))
        queries = first(torch.cat([pixels, torch.eye(3)[torch.full_like(labels, 2)]], dim=-1))
        for layer in stack:
            h, state = layer(h, layer.initial_state(32))
            queries = layer.read(queries, state)
        logits = head(queries)
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        return (logits.argmax(-1) == labels).float().mean().item(), loss

    for _ in range(150):
        optimiser.zero_grad()
        _, loss = accuracy_and_loss()
        loss.backward()
        optimiser.step()
    with torch.no_grad():
        assert sum(accuracy_and_loss()[0] for _ in range(10)) / 10 > 0.8
