"""What must hold for every layer with a state, whatever is in it."""

import pytest
import torch


class LayerChecks:
    """Contract of `initial_state`, `forward` and `read`, checked on a float64 layer in eval mode."""

    def __init__(self, layer, width, batch=3):
        torch.manual_seed(1)
        self.layer = layer.double().eval()
        self.h = torch.randn(batch, 7, width, dtype=torch.float64)
        self.queries = torch.randn(batch, 4, width, dtype=torch.float64)
        self.start = self.layer.initial_state(batch)

    def splitting_a_segment_changes_nothing(self):
        whole, end = self.layer(self.h, self.start)
        first, middle = self.layer(self.h[:, :3], self.start)
        second, end_too = self.layer(self.h[:, 3:], middle)
        torch.testing.assert_close(torch.cat([first, second], 1), whole, rtol=0, atol=1e-12)
        for name in end:
            torch.testing.assert_close(end_too[name], end[name], rtol=0, atol=1e-12)

    def a_query_equals_a_forward_of_length_one(self):
        _, state = self.layer(self.h, self.start)
        before = {name: value.clone() for name, value in state.items()}
        answers = self.layer.read(self.queries, state)
        for i in range(self.queries.shape[1]):
            alone, _ = self.layer(self.queries[:, i : i + 1], state)
            torch.testing.assert_close(answers[:, i : i + 1], alone, rtol=0, atol=1e-12)
        for name, value in state.items():
            assert torch.equal(value, before[name]), f"the query or the forward changed state {name!r}"

    def streams_do_not_see_each_other(self):
        h = self.h.clone().requires_grad_()
        out, state = self.layer(h, self.start)
        total = out[1].square().sum() + sum(value[1].square().sum() for value in state.values())
        (g,) = torch.autograd.grad(total + self.layer.read(self.queries, state)[1].square().sum(), h)
        assert g[1].abs().sum() > 0
        assert not g[0].any()
        assert not g[2].any()

    def gradients_flow_through_the_state(self):
        h = self.h.clone().requires_grad_()
        _, state = self.layer(h, self.start)
        (g,) = torch.autograd.grad(self.layer.read(self.queries, state).square().sum(), h)
        assert (g.abs().sum(-1) > 0).all()

    def all(self):
        self.splitting_a_segment_changes_nothing()
        self.a_query_equals_a_forward_of_length_one()
        self.streams_do_not_see_each_other()
        self.gradients_flow_through_the_state()


@pytest.fixture
def layer_checks():
    return LayerChecks
