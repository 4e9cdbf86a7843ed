import pytest
import torch

from autocl.errors import AutoclError
from autocl.layers.attention import CausalAttention


def test_it_keeps_the_contract_of_a_layer(layer_checks):
    layer_checks(CausalAttention(width=12, heads=3), 12).all()


def test_the_future_is_not_seen():
    layer = CausalAttention(width=8, heads=2).eval()
    h = torch.randn(1, 6, 8)
    out, _ = layer(h, layer.initial_state(1))
    changed = h.clone()
    changed[:, 4:] = torch.randn(1, 2, 8)
    out_changed, _ = layer(changed, layer.initial_state(1))
    torch.testing.assert_close(out_changed[:, :4], out[:, :4])
    assert not torch.allclose(out_changed[:, 5] - changed[:, 5], out[:, 5] - h[:, 5])


def test_one_head_is_the_textbook_formula():
    torch.manual_seed(0)
    layer = CausalAttention(width=4, heads=1).double().eval()
    h = torch.randn(1, 5, 4, dtype=torch.float64)
    q, k, v = (layer.norm(h) @ layer.qkv.weight.T).split(4, dim=-1)
    scores = (q @ k.mT / 2).masked_fill(torch.ones(5, 5).triu(1).bool(), -torch.inf)
    want = h + scores.softmax(-1) @ v @ layer.out.weight.T
    torch.testing.assert_close(layer(h, layer.initial_state(1))[0], want)


def test_heads_must_divide_the_width():
    with pytest.raises(AutoclError, match="width 8, heads 3"):
        CausalAttention(width=8, heads=3)
