"""The metrics on matrices small enough to compute by hand."""

import json
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from autocl.errors import InputError
from autocl.matrix import TransferMatrix, learning_acceleration, stability_gap

HAND = torch.tensor([[0.9, 0.3, 0.5], [0.95, 0.8, 0.6], [0.7, 0.5, 1.0]], dtype=torch.float64)
LOWER = torch.where(torch.ones(3, 3).tril() > 0, HAND, math.nan)


def test_metrics_of_a_square_computed_by_hand() -> None:
    m = TransferMatrix(HAND)
    assert m.average().item() == pytest.approx((0.7 + 0.5 + 1.0) / 3)
    assert m.learning_accuracy().item() == pytest.approx((0.9 + 0.8 + 1.0) / 3)
    assert m.backward_transfer().item() == pytest.approx(((0.7 - 0.9) + (0.5 - 0.8)) / 2)
    assert m.forgetting().item() == pytest.approx(((0.95 - 0.7) + (0.8 - 0.5)) / 2)
    assert m.forward_transfer(0.5).item() == pytest.approx(((0.3 - 0.5) + (0.6 - 0.5)) / 2)
    base = torch.tensor([0.0, 0.1, 0.2], dtype=torch.float64)
    assert m.forward_transfer(base).item() == pytest.approx(((0.3 - 0.1) + (0.6 - 0.2)) / 2)
    assert m.seen().tolist() == pytest.approx([0.9, (0.95 + 0.8) / 2, (0.7 + 0.5 + 1.0) / 3])


def test_a_triangle_gives_all_but_forward_transfer() -> None:
    square, triangle = TransferMatrix(HAND), TransferMatrix(LOWER)
    for name in ("average", "learning_accuracy", "backward_transfer", "forgetting"):
        assert getattr(triangle, name)().item() == pytest.approx(getattr(square, name)().item())
    assert triangle.seen().tolist() == pytest.approx(square.seen().tolist())
    assert math.isnan(triangle.forward_transfer(0.5).item())


def test_what_was_never_asked_is_nan_and_not_a_number_of_something_else() -> None:
    only_end = torch.full((3, 3), math.nan)
    only_end[-1] = 0.5
    m = TransferMatrix(only_end)
    assert m.average().item() == 0.5
    assert all(math.isnan(v.item()) for v in (m.learning_accuracy(), m.backward_transfer(), m.forgetting()))
    single = TransferMatrix(torch.tensor([[0.8]]))
    assert single.average().item() == pytest.approx(0.8)
    assert math.isnan(single.backward_transfer().item())
    assert math.isnan(single.forgetting().item())


def test_leading_axes_are_kept_and_averaged() -> None:
    runs = torch.stack([HAND, HAND / 2])
    m = TransferMatrix(runs)
    assert m.average().tolist() == pytest.approx([TransferMatrix(r).average().item() for r in runs])
    assert m.forward_transfer(0.5).shape == (2,)
    assert torch.allclose(m.mean().values, HAND * 0.75)


def test_learning_acceleration_and_stability_gap_by_hand() -> None:
    few = torch.tensor([[0.5, 0.7, 0.8], [0.6, 0.6, 0.6]])
    assert learning_acceleration(few).tolist() == pytest.approx([0.25, 0.0])
    trace = torch.tensor(
        [[0.6, 0.1, 0.1], [0.9, 0.1, 0.1], [0.4, 0.5, 0.1], [0.8, 0.9, 0.1], [0.8, 0.85, 1.0]]
    )
    # Task 0 falls from 0.9 to 0.4 in between, task 1 from 0.9 to 0.85.
    assert stability_gap(trace, torch.tensor([1, 3, 4])).item() == pytest.approx((0.5 + 0.05) / 2)


@given(
    st.integers(1, 4).flatmap(
        lambda m: st.lists(
            st.lists(st.one_of(st.none(), st.floats(0, 1)), min_size=m, max_size=m), min_size=m, max_size=m
        )
    )
)
def test_json_and_back_is_the_same(lists: list[list[float | None]]) -> None:
    through = json.loads(json.dumps(TransferMatrix.from_lists(lists).to_lists()))
    assert through == lists


@given(st.integers(1, 5), st.integers(0, 10**6))
def test_forgetting_is_never_below_minus_backward_transfer(m: int, seed: int) -> None:
    values = torch.rand(m, m, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    matrix = TransferMatrix(values)
    if m > 1:
        assert matrix.forgetting().item() >= -matrix.backward_transfer().item() - 1e-12


@pytest.mark.parametrize(
    "bad", [torch.zeros(3), torch.zeros(2, 3), torch.zeros(0, 0), torch.zeros(2, 2, dtype=torch.int64)]
)
def test_a_matrix_that_is_none_is_refused(bad: torch.Tensor) -> None:
    with pytest.raises(InputError, match="transfer matrix"):
        TransferMatrix(bad)
