import math

import pytest

from autocl.training.recipe import Optimiser


def test_the_papers_schedule_peaks_at_its_warmup() -> None:
    paper = Optimiser(schedule="transformer", warmup=5000, lr=123.0)

    def rate(step: int) -> float:
        return paper.rate(step, steps=600_000, width=256)

    assert rate(4999) == pytest.approx(8.84e-4, rel=1e-3)  # SPEC §3.1
    assert rate(0) == pytest.approx(256**-0.5 * 5000**-1.5)
    assert rate(19_999) == pytest.approx(rate(4999) / 2)
    assert max(range(0, 20_000, 7), key=rate) == pytest.approx(4999, abs=7)


def test_cosine_rises_linearly_and_ends_near_zero() -> None:
    ours = Optimiser(schedule="cosine", warmup=10, lr=2.0)
    rates = [ours.rate(s, steps=100, width=1) for s in range(100)]
    assert rates[0] == pytest.approx(0.2)
    assert rates[50] == pytest.approx(1.0)
    assert rates[99] == pytest.approx(1 + math.cos(0.99 * math.pi))
    assert rates[9:] == sorted(rates[9:], reverse=True)


def test_constant_with_and_without_warmup() -> None:
    assert Optimiser(lr=3.0).rate(0, steps=10, width=1) == 3.0
    slow = Optimiser(lr=3.0, warmup=4)
    assert [slow.rate(s, steps=10, width=1) for s in range(5)] == [0.75, 1.5, 2.25, 3.0, 3.0]
