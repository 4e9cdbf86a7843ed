"""The body of the combiner: fast weights as a plain regression gives them, and how they are examined."""

import torch
from test_universal import learned, readout, stream
from torch import nn

from autocl.readouts.body import Body, halves
from autocl.readouts.combiner import BOUND, CAUTION, Confidence, Trust
from autocl.readouts.examination import FACTS, Examination, examine
from autocl.readouts.experts import all_experts
from autocl.readouts.universal import UniversalReadout, moments_of

__all__ = ["readout"]  # the fixture


def test_fast_weights_are_those_of_one_regression_on_keys_and_classes() -> None:
    torch.manual_seed(0)
    body, N = Body(hidden=5, keys=3).double(), 4
    with torch.no_grad():
        body.log_rate.fill_(0.3)
    hidden, error = torch.randn(1, 6, 2, 5).double(), torch.randn(1, 6, 2).double()
    candidates = torch.randint(N, (1, 6, 2))
    last, bias = body(body.evidence(hidden, error, candidates, N))
    rows = torch.cat([body.key(hidden)[0].flatten(0, 1), torch.eye(N).double()[candidates[0].flatten()]], 1)
    penalty = torch.cat([body.log_penalty.exp().expand(3), body.log_class_penalty.exp().expand(N)])
    weights = torch.linalg.solve(rows.T @ rows + penalty.diag(), rows.T @ error.flatten())
    torch.testing.assert_close(last[0], body.log_rate.exp() * weights[:3] @ body.key.weight)
    torch.testing.assert_close(bias[0], body.log_rate.exp() * weights[3:])


def test_evidence_adds_up_and_what_was_not_asked_about_says_nothing() -> None:
    torch.manual_seed(0)
    body = Body(hidden=5, keys=3).double()
    hidden, error = torch.randn(2, 6, 2, 5).double(), torch.randn(2, 6, 2).double()
    candidates = torch.randint(4, (2, 6, 2))
    hidden[:, 4:], error[:, 4:] = 0, 0
    whole = body.evidence(hidden, error, candidates, 4)
    parts = [body.evidence(hidden[:, p], error[:, p], candidates[:, p], 4) for p in (slice(3), slice(3, 4))]
    for all_of_it, first, second in zip(whole, *parts, strict=True):
        torch.testing.assert_close(all_of_it, first + second)


def judged(readout: UniversalReadout, demos: int, classes: int) -> tuple[Trust, Examination]:
    f, y = stream(demos + 2 * classes, 12, classes, seed=1)
    f, y = f[:, -demos:], y[:, -demos:]
    moments = moments_of(learned(readout, f, y, classes))
    exam = examine(all_experts(moments).left_out, moments)
    exam = Examination(*(t.float() if t.is_floating_point() else t for t in exam))
    return readout.combiner.judge(exam), exam


def test_without_an_examination_the_body_says_nothing(readout: UniversalReadout) -> None:
    f = torch.randn(1, 4, 12)
    state = learned(readout, f, torch.arange(4)[None], 4)  # one demo of each class
    with torch.no_grad():
        before = readout.read(f, state)
        readout.combiner.body.log_rate.fill_(3.0)
        assert torch.equal(readout._prepare(state)(f).logits, before)


def test_the_body_learns_from_what_the_others_got_wrong(readout: UniversalReadout) -> None:
    with torch.no_grad():
        readout.combiner.body.log_class_penalty.fill_(0.0)
        trust, exam = judged(readout, 60, 4)
        # An expert that all trust, and that calls every second class by the name of the first.
        wrong = exam.left_out.clone()
        wrong[..., 0] = wrong[..., :2].amax(-1) + 1
        misled = readout.combiner.judge(exam._replace(left_out=wrong))
    assert float(misled.bias[0, 0]) < float(trust.bias[0, 0])
    assert float(misled.bias[0, 0]) < 0


def test_both_halves_of_an_examination_know_every_class_however_labels_come() -> None:
    none = torch.zeros(1)  # what experts said and how they passed does not matter here
    exam = Examination(none, none, none, none, none, none, torch.full((1, 3), 6.0))
    for label in ([0, 1] * 6, [0] * 6 + [1] * 6, [1, 1, 0, 0] * 3):
        weight = torch.full((1, 12), 1 / 10)
        weight[:, [3, 8]] = 0
        exam = exam._replace(label=torch.tensor([label]), weight=weight)
        (one, other), examined, balance = halves(exam)
        assert torch.equal(one + other, (weight > 0).float())
        for c in (0, 1):
            mine = exam.label == c
            assert abs(float((one * mine).sum() - (other * mine).sum())) <= 1
        assert examined.tolist() == [[1, 1, 0]]
        assert balance.max() <= 1


def test_prototypes_of_frequent_classes_count_less_and_equal_ones_in_full() -> None:
    none = torch.zeros(1)
    exam = Examination(none, none, none, none, none, none, torch.full((1, 2), 6.0))
    for label, expected in (([0, 1] * 6, {1.0}), ([0] * 9 + [1] * 3, {6 / 9, 1.0})):
        exam = exam._replace(label=torch.tensor([label]), weight=torch.full((1, 12), 1 / 12))
        counts = halves(exam).balance[0]
        assert torch.equal(counts.unique(), torch.tensor(sorted(expected)))
        assert (counts[exam.label[0] == 1] == 1).all()


def test_a_class_whose_only_demo_was_left_out_is_not_called_wrong(readout: UniversalReadout) -> None:
    f, y = stream(40, 12, 3, seed=2)
    single = torch.tensor([[3]])
    with torch.no_grad():
        moments = moments_of(learned(readout, torch.cat([f, f[:, :1]], 1), torch.cat([y, single], 1), 4))
        exam = examine(all_experts(moments).left_out, moments)
        exam = Examination(*(t.float() if t.is_floating_point() else t for t in exam))
        trust = readout.combiner.judge(exam)
    assert trust.bias[0, :3].abs().min() > 0
    assert trust.bias[0, 3] == 0


def test_trust_falls_with_what_a_correction_costs_and_its_start_knows_no_shape() -> None:
    torch.manual_seed(0)
    confidence, zero = Confidence(), torch.zeros(3)
    facts = torch.randn(3, FACTS)
    assert torch.allclose(confidence(zero, zero, facts), torch.sigmoid(torch.tensor(1.0)))
    better, worse = confidence(zero + 0.3, zero, facts), confidence(zero, zero + 0.3, facts)
    assert better.min() > 0.99
    assert worse.max() < 0.01


def test_the_body_counts_half_outside_meta_training(readout: UniversalReadout) -> None:
    f, y = stream(40, 12, 3, seed=2)
    with torch.no_grad():
        moments = moments_of(learned(readout, f, y, 3))
        exam = examine(all_experts(moments).left_out, moments)
        exam = Examination(*(t.float() if t.is_floating_point() else t for t in exam))
        whole, half = (readout.combiner.train(mode).judge(exam) for mode in (True, False))
    assert whole.last.any()
    assert whole.bias.any()
    torch.testing.assert_close(half.last, CAUTION * whole.last)
    torch.testing.assert_close(half.bias, CAUTION * whole.bias)
    torch.testing.assert_close(half.reader, whole.reader)


def test_of_an_examination_at_chance_nothing_is_learned(readout: UniversalReadout) -> None:
    torch.manual_seed(0)
    f, y = torch.randn(1, 60, 12), torch.arange(60)[None] % 3
    with torch.no_grad():
        moments = moments_of(learned(readout, f, y, 3))
        exam = examine(all_experts(moments).left_out, moments)
        exam = Examination(*(t.float() if t.is_floating_point() else t for t in exam))
        noise = readout.combiner.judge(exam)
        # The same prototypes, half known by all experts: now there is something to be learned.
        told = 0.004 * torch.nn.functional.one_hot(exam.label, 3)[:, None].expand_as(exam.left_out)
        known = readout.combiner.judge(exam._replace(left_out=told))
    assert not noise.last.any()
    assert not noise.bias.any()
    assert known.last.any()


def test_a_body_that_writes_at_random_is_bounded_and_costs_less_than_half_a_point() -> None:
    torch.manual_seed(0)
    readout, costs = UniversalReadout(), []
    body = readout.combiner.body
    for seed in range(24):
        f, y = stream(150, 24, 10, seed)
        f = f + 1.5 * torch.randn(f.shape, generator=torch.Generator().manual_seed(seed))
        state = learned(readout, f[:, :100], y[:, :100], 10)
        nn.init.zeros_(body.key.weight)
        nn.init.constant_(body.log_rate, -20.0)
        before = readout.read(f[:, 100:], state)
        nn.init.normal_(body.key.weight, std=3.0)
        nn.init.constant_(body.log_rate, 3.0)
        after = readout.read(f[:, 100:], state)
        assert (after.log_softmax(-1) - before.log_softmax(-1)).abs().max() <= 2 * BOUND
        right = [(logits.argmax(-1) == y[:, 100:]).float().mean() for logits in (before, after)]
        costs.append(float(right[0] - right[1]))
    assert sum(costs) / len(costs) < 0.005
