import pytest
import torch

from autocl.errors import AutoclError
from autocl.layers.delta import DeltaLayer
from autocl.learner import Learner
from autocl.learner.config import LearnerConfig


@pytest.mark.parametrize("additive", [False, True], ids=["delta", "additive"])
def test_it_keeps_the_contract_of_a_layer(layer_checks, additive):
    layer_checks(DeltaLayer(width=12, heads=3, additive=additive), 12).all()


def test_it_is_the_written_out_definition():
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


def test_the_learner_has_the_papers_parameters():
    learner = Learner(LearnerConfig(mixer="delta"))
    assert sum(p.numel() for p in learner.parameters()) == 1_125_093


def test_heads_must_divide_the_width():
    with pytest.raises(AutoclError, match="width 8, heads 3"):
        DeltaLayer(width=8, heads=3)
