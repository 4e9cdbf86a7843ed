import torch

from autocl.layers.feedforward import FeedForward


def test_it_has_the_papers_size_and_read_equals_forward():
    layer = FeedForward(width=256, inner=512).eval()
    assert sum(p.numel() for p in layer.parameters()) == 263_424
    h = torch.randn(2, 3, 256)
    out, state = layer(h, layer.initial_state(2))
    assert state == {}
    assert torch.equal(out, layer.read(h, state))


def test_it_is_a_residual_around_a_normalised_input():
    layer = FeedForward(width=8, inner=16).eval()
    h = torch.randn(1, 4, 8)
    shifted, _ = layer(h + 3.0, {})
    torch.testing.assert_close(shifted - 3.0, layer(h, {})[0])
