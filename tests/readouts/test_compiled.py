"""Kernels of the universal read-out against the definitions in torch."""

import numpy as np
import pytest
import torch
from scipy.cluster.hierarchy import fcluster, linkage
from test_universal import learned, readout, stream

from autocl.readouts import compiled, examination, experts, merging, preparing, reading, universal
from autocl.readouts.examination import UNSEEN
from autocl.readouts.memory import FREE, Memory, packed
from autocl.readouts.universal import UniversalReadout

__all__ = ["readout"]  # the fixture


@pytest.mark.parametrize(
    ("demos", "length", "classes", "outputs"),
    [(30, 40, 3, 3), (5, 7, 2, 4), (90, 33, 6, 9), (400, 40, 3, 3), (300, 130, 120, 120), (2, 3, 1, 1)],
)
def test_answers_are_those_of_the_definition(
    readout: UniversalReadout, demos: int, length: int, classes: int, outputs: int, monkeypatch
) -> None:
    f, y = stream(demos + 20, length, classes)
    state = learned(readout, f[:, :demos], y[:, :demos], outputs)
    queries = torch.cat([f[:, demos:], 3 * torch.randn(1, 5, length), torch.zeros(1, 1, length)], 1)
    with torch.no_grad():
        prepared = readout.prepare(state)
        assert isinstance(prepared, universal.Compiled)
        ours = prepared(queries)
        for module in (universal, examination):
            monkeypatch.setattr(module, "compiles", lambda x: False)
        defined = readout._prepare(state)(queries)
    torch.testing.assert_close(ours.logits, defined.logits, rtol=1e-4, atol=2e-4)
    torch.testing.assert_close(ours.novelty, defined.novelty, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("length", [3, 40])
def test_the_class_of_a_single_demo_is_the_likeliest_by_both_paths(
    readout: UniversalReadout, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    f = torch.randn(1, 4, length, generator=torch.Generator().manual_seed(0))
    state = learned(readout, f[:, :1], torch.tensor([[1]]), 4)
    with torch.no_grad():
        ours = readout.prepare(state)(f)
        for module in (universal, examination):
            monkeypatch.setattr(module, "compiles", lambda x: False)
        defined = readout._prepare(state)(f)
    torch.testing.assert_close(ours.logits, defined.logits, rtol=1e-5, atol=1e-5)
    assert (ours.logits[..., 1] > -10).all()
    assert (ours.logits[..., [0, 2, 3]] == UNSEEN).all()


def test_an_answer_does_not_depend_on_its_company(readout: UniversalReadout) -> None:
    f, y = stream(100, 40, 5)
    with torch.no_grad():
        prepared = readout.prepare(learned(readout, f[:, :60], y[:, :60], 5))
        together = prepared(f[:, 60:])
        alone = [prepared(f[:, i : i + 1]) for i in range(60, 100)]
    assert torch.equal(together.logits, torch.cat([a.logits for a in alone], 1))
    assert torch.equal(together.novelty, torch.cat([a.novelty for a in alone], 1))


def test_marks_are_those_of_the_definition() -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(1, 4, 30, 5, generator=generator).double()
    seen = torch.tensor([[True, True, False, True, True]])
    scores = scores.masked_fill(~seen[:, None, None], -1e4)
    label = torch.tensor([0, 1, 3, 4, 1] * 6)
    weight = torch.rand(1, 30, generator=generator).double() * (torch.arange(30) % 7 > 0)
    loss, accuracy = compiled.marks(scores[0], label, weight[0], seen[0])
    target = torch.nn.functional.one_hot(label, 5).double()[None]
    defined = examination.marks(scores, target, weight)
    torch.testing.assert_close(loss, defined[0][0])
    torch.testing.assert_close(accuracy, defined[1][0])


@pytest.mark.parametrize(
    ("demos", "length", "classes", "outputs", "forgotten"),
    [
        (30, 40, 3, 3, None),
        (60, 90, 30, 32, 4),
        (90, 33, 6, 9, 2),
        (400, 40, 3, 3, None),
        (300, 130, 60, 60, 7),
        (2, 3, 1, 1, None),
    ],
)
def test_experts_are_prepared_as_defined(
    readout: UniversalReadout, demos: int, length: int, classes: int, outputs: int, forgotten: int | None
) -> None:
    f, y = stream(demos, length, classes)
    state = learned(readout, f, y, outputs)
    if forgotten is not None:  # leaves free places between the others
        state = readout.forget(state, forgotten)
    with torch.no_grad():
        moments = universal.moments_of(state)
        ours, defined = preparing.prepare(moments), experts.all_experts(moments)
        exam = examination.examine(defined.left_out, moments)
    examined = exam.weight[0] > 0
    torch.testing.assert_close(
        examination.examine(ours.left_out, moments).left_out[:, :, examined], exam.left_out[:, :, examined]
    )


def test_demos_that_repeat_are_prepared_as_defined(readout: UniversalReadout) -> None:
    f, y = stream(20, 30, 2)
    moments = universal.moments_of(learned(readout, f.repeat(1, 3, 1), y.repeat(1, 3), 2))
    with torch.no_grad():
        ours, defined = preparing.prepare(moments), experts.all_experts(moments)
    torch.testing.assert_close(ours.left_out, defined.left_out)


def test_gelu_is_torchs() -> None:
    a = np.linspace(-9, 9, 4 * 300, dtype=np.float32).reshape(4, 300)
    ours = a.copy()
    reading._gelu(ours, np.empty((2, 300)))
    theirs = torch.nn.functional.gelu(torch.from_numpy(a).double()).numpy()
    np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-7)


def test_clusters_are_scipys() -> None:
    rng = np.random.default_rng(0)
    reach = np.array([0.5, 1.0, 1.5, 3.0])
    for points in (1, 2, 3, 20, 60):
        label = np.where(rng.random(points) < 0.1, -1, rng.integers(3, size=points))
        x = rng.standard_normal((points, 5)) + 3 * rng.integers(3, size=(points, 1))
        number, owner = np.zeros((2, len(reach), points), np.int64)
        count = merging.clusters(((x[:, None] - x) ** 2).sum(-1), label, reach, number, owner)
        for r in range(len(reach)):
            assert owner[r, number[r, label >= 0]].tolist() == label[label >= 0].tolist()
            assert sorted(set(number[r, label >= 0])) == list(range(count[r]))
        for c in range(3):
            of_class = np.flatnonzero(label == c)
            tree = linkage(x[of_class], "ward") if len(of_class) > 1 else None
            for r in range(len(reach)):
                ours = number[r, of_class].tolist()
                theirs = [1] * len(ours)
                if tree is not None:
                    theirs = fcluster(tree, reach[r] * np.median(tree[:, 2]), "distance").tolist()
                assert len(set(zip(ours, theirs, strict=True))) == len(set(ours)) == len(set(theirs))


@pytest.mark.parametrize("classes", [1, 2, 7])
def test_a_full_memory_is_squeezed_as_defined(classes: int) -> None:
    f, y = stream(240, 12, classes)
    f, memory = f.double(), Memory.empty(1, 32, f.double())
    with torch.enable_grad():
        defined, told = memory.learned(f[:, :150], y[:, :150])
        defined, told_later = defined.learned(f[:, 150:], y[:, 150:])
    with torch.no_grad():
        ours, of_ours = memory.learned(f[:, :50], y[:, :50])
        mergers = [of_ours]
        for t in range(50, 240):
            ours, of_ours = ours.learned(f[:, t : t + 1], y[:, t : t + 1])
            mergers.append(of_ours)
    label, row = (torch.cat(parts, 1) for parts in zip(*mergers, strict=True))
    assert torch.equal(label, torch.cat([told.label, told_later.label], 1))
    torch.testing.assert_close(row, torch.cat([told.row, told_later.row], 1))
    torch.testing.assert_close(packed(row.mT @ row), ours.scatter)
    assert (label[:, :32] == FREE).all()
    assert (label[:, 32:] != FREE).all()
    assert torch.equal(ours.label, defined.label)
    assert torch.equal(ours.weight, defined.weight)
    torch.testing.assert_close(ours.prototype, defined.prototype)
    torch.testing.assert_close(ours.scatter, defined.scatter)


def test_streams_with_more_room_than_others_are_filled_as_alone() -> None:
    f, y = stream(100, 12, 3, batch=2)
    f, y = f.double(), y.clone()
    y[1, :8] = 0  # so that forgetting frees more places of the second stream
    with torch.enable_grad():
        memory = Memory.empty(2, 32, f).learn(f[:, :32], y[:, :32]).without(0)
        free = (memory.label == FREE).sum(1)
        defined = memory.learn(f[:, 32:], y[:, 32:])
    assert free[0] != free[1]
    assert (defined.weight > 0).all()
    with torch.no_grad():
        ours = memory.learn(f[:, 32:], y[:, 32:])
    assert torch.equal(ours.label, defined.label)
    torch.testing.assert_close(ours.prototype, defined.prototype)
    torch.testing.assert_close(ours.scatter, defined.scatter)
