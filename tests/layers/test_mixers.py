"""Mixers besides the SRWM, and the feed-forward block: the contract of a layer, and their definitions."""

import pytest
import torch

from autocl.errors import AutoclError
from autocl.layers.attention import CausalAttention
from autocl.layers.delta import DeltaLayer
from autocl.layers.feedforward import FeedForward
from autocl.layers.lstm import LSTM
from autocl.learner import Learner
from autocl.learner.config import LearnerConfig


@pytest.mark.parametrize(
    ("layer", "width"),
    [
        (CausalAttention(width=12, heads=3), 12),
        (DeltaLayer(width=12, heads=3), 12),
        (DeltaLayer(width=12, heads=3, additive=True), 12),
        (LSTM(width=6, hidden=5), 6),
    ],
    ids=["attention", "delta", "additive", "lstm"],
)
def test_mixers_keep_the_contract_of_a_layer(layer_checks, layer, width):
    layer_checks(layer, width).all()


@pytest.mark.parametrize("mixer", [CausalAttention, DeltaLayer])
def test_heads_must_divide_the_width(mixer):
    with pytest.raises(AutoclError, match="width 8, heads 3"):
        mixer(width=8, heads=3)


def test_attention_does_not_see_the_future():
    layer = CausalAttention(width=8, heads=2).eval()
    h = torch.randn(1, 6, 8)
    out, _ = layer(h, layer.initial_state(1))
    changed = h.clone()
    changed[:, 4:] = torch.randn(1, 2, 8)
    out_changed, _ = layer(changed, layer.initial_state(1))
    torch.testing.assert_close(out_changed[:, :4], out[:, :4])
    assert not torch.allclose(out_changed[:, 5] - changed[:, 5], out[:, 5] - h[:, 5])


def test_attention_of_one_head_is_the_textbook_formula():
    torch.manual_seed(0)
    layer = CausalAttention(width=4, heads=1).double().eval()
    h = torch.randn(1, 5, 4, dtype=torch.float64)
    q, k, v = (layer.norm(h) @ layer.qkv.weight.T).split(4, dim=-1)
    scores = (q @ k.mT / 2).masked_fill(torch.ones(5, 5).triu(1).bool(), -torch.inf)
    want = h + scores.softmax(-1) @ v @ layer.out.weight.T
    torch.testing.assert_close(layer(h, layer.initial_state(1))[0], want)


def test_delta_is_the_written_out_definition():
    torch.manual_seed(0)
    layer = DeltaLayer(width=4, heads=1).double().eval()
    h = torch.randn(1, 3, 4, dtype=torch.float64)
    W = torch.zeros(4, 4, dtype=torch.float64)
    want = []
    for x in h[0]:
        z = layer.slow.weight @ layer.norm(x)
        q, k = (torch.nn.functional.elu(part) + 1 for part in (z[:4], z[4:8]))
        q, k = q / q.sum(), k / k.sum()
        W = W + z[12].sigmoid() * torch.outer(z[8:12] - W @ k, k)
        want.append(x + layer.out.weight @ W @ q)
    out, state = layer(h, layer.initial_state(1))
    torch.testing.assert_close(out[0], torch.stack(want))
    torch.testing.assert_close(state["W"][0, 0], W)


def test_the_delta_learner_has_the_papers_parameters():
    learner = Learner(LearnerConfig(mixer="delta"))
    assert sum(p.numel() for p in learner.parameters()) == 1_125_093


def test_two_lstms_are_the_papers():
    # Conv-LSTM (2 × 256) of SPEC §2: 956,901 parameters with features and 5 labels as input, no projection.
    stack = [LSTM(width=128 + 5, hidden=256), LSTM(width=256, hidden=256)]
    assert sum(p.numel() for layer in stack for p in layer.parameters()) == 956_901 - 28_896 - 1_285


def test_feedforward_has_the_papers_size_and_read_equals_forward():
    layer = FeedForward(width=256, inner=512).eval()
    assert sum(p.numel() for p in layer.parameters()) == 263_424
    h = torch.randn(2, 3, 256)
    out, state = layer(h, layer.initial_state(2))
    assert state == {}
    assert torch.equal(out, layer.read(h, state))


def test_feedforward_is_a_residual_around_a_normalised_input():
    layer = FeedForward(width=8, inner=16).eval()
    h = torch.randn(1, 4, 8)
    shifted, _ = layer(h + 3.0, {})
    torch.testing.assert_close(shifted - 3.0, layer(h, {})[0])


def test_the_joined_passes_of_the_feed_forward_block_are_its_definition():
    torch.manual_seed(0)
    layer, h = FeedForward(width=8, inner=16, dropout=0.3), torch.randn(2, 5, 8)
    for mode in (True, False):
        layer.train(mode)
        torch.manual_seed(1)
        joined = layer.read(h, {})
        torch.manual_seed(1)
        assert torch.equal(joined, h + layer.net(h))
