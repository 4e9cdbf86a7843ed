"""Shapes of classes: kept as defined, judged as Gaussians, of use where classes have shapes."""

import math

import pytest
import torch
from torch import Tensor

from autocl.readouts import shapes as module
from autocl.readouts.memory import FREE, Mergers
from autocl.readouts.shapes import Shapes, widened
from autocl.readouts.universal import Compiled, UniversalReadout

D, N = 12, 3


def mergers(n: int, seed: int = 0) -> Mergers:
    generator = torch.Generator().manual_seed(seed)
    label = torch.randint(-1, N, (1, n), generator=generator)
    return Mergers(label, torch.randn(1, n, D, generator=generator) * torch.linspace(2, 0.1, D))


def narrow_and_wide(n: int, seed: int, length: int = 24) -> tuple[Tensor, Tensor]:
    """Classes with one mean, each wider in eight other directions: only their shapes tell them apart."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(N, (1, n), generator=generator)
    width = torch.ones(N, length)
    for c in range(N):
        width[c, 8 * c : 8 * c + 8] = 2.0
    return torch.randn(1, n, length, generator=generator) * width[y], y


def clusters(n: int, seed: int) -> tuple[Tensor, Tensor]:
    """Classes of one shape that lie apart."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(N, (1, n), generator=generator)
    return torch.randn(1, n, D, generator=generator) + 2 * torch.eye(N, D)[y], y


def learned(f: Tensor, y: Tensor, shapes: int) -> tuple[UniversalReadout, dict[str, Tensor]]:
    torch.manual_seed(0)
    readout = UniversalReadout(f.shape[-1], shapes=shapes)
    return readout, readout.learn(f, y, readout.initial_state(1, N))


def test_directions_keep_the_scatter_of_each_class_while_they_are_enough() -> None:
    told = mergers(24)
    kept = widened(torch.zeros(1, N, D, D, dtype=torch.float16), torch.zeros(1, N), told)
    for c in range(N):
        mine = told.row[0, told.label[0] == c]
        rows = kept[0, c].float()
        torch.testing.assert_close(rows.T @ rows, mine.T @ mine / len(mine), atol=0.02, rtol=0.02)


def test_few_directions_are_the_widest_ones() -> None:
    told = mergers(600)
    kept = widened(torch.zeros(1, N, 3, D, dtype=torch.float16), torch.zeros(1, N), told)[0].float()
    for c in range(N):
        mine = told.row[0, told.label[0] == c]
        values, axes = torch.linalg.eigh(mine.T @ mine / len(mine))
        assert float(kept[c].square().sum()) > 0.85 * float(values[-3:].sum())
        inside = (kept[c] @ axes[:, -4:]).square().sum() / kept[c].square().sum()
        assert float(inside) > 0.9


def test_directions_do_not_depend_on_how_demos_are_grouped() -> None:
    told, start = mergers(90), torch.zeros(1, N, 4, D, dtype=torch.float16)
    at_once = widened(start, torch.zeros(1, N), told)
    one_by_one, known = start, torch.zeros(1, N)
    for t in range(90):
        one_by_one = widened(one_by_one, known, Mergers(*(part[:, t : t + 1] for part in told)))
        if told.label[0, t] != FREE:
            known[0, told.label[0, t]] += 1
    assert torch.equal(at_once, one_by_one)


def test_the_density_is_that_of_a_gaussian() -> None:
    generator = torch.Generator().manual_seed(1)
    basis = torch.linalg.qr(torch.randn(D, 3, generator=generator).double())[0].T
    width, rest = torch.tensor([5.0, 3.0, 2.0]).double(), torch.tensor(0.7).double()
    away = torch.randn(6, D, generator=generator).double()
    matrix = rest * (torch.eye(D).double() - basis.T @ basis) + basis.T @ torch.diag(width) @ basis
    square = (away @ torch.linalg.inv(matrix) * away).sum(1)
    expected = -0.5 * (square + torch.logdet(matrix))
    torch.testing.assert_close(module._gaussian(away, basis, width, rest), expected)


def test_the_kernel_says_what_is_defined() -> None:
    generator = torch.Generator().manual_seed(2)
    basis = torch.linalg.qr(torch.randn(7, D, 3, generator=generator))[0].mT.contiguous()
    width, rest = 1 + torch.rand(7, 3, generator=generator), 0.5 + torch.rand(7, generator=generator)
    shapes = Shapes(torch.eye(D), torch.randn(7, D), basis, width, rest, torch.ones(7, dtype=torch.bool))
    white, candidates = torch.randn(50, D), torch.randint(7, (50, 4))
    with torch.no_grad():
        ours = shapes.likelihood(white, candidates)
    with torch.enable_grad():
        defined = shapes.likelihood(white, candidates)
    torch.testing.assert_close(ours, defined, atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("i", [0, 5])
def test_a_demo_that_is_left_out_is_judged_as_if_it_had_not_been_learned(i: int) -> None:
    """Against shapes and a common scatter that are made again without it."""
    f, y = narrow_and_wide(200, 3, D)
    x, label = f[0].double(), y[0]

    def known(x: Tensor, label: Tensor, whiten: Tensor) -> module._Known:
        centre = torch.stack([x[label == c].mean(0) for c in range(N)])
        places = [(label == c).nonzero()[:, 0] for c in range(N)]
        rows = [(x[p] - centre[c]) @ whiten for c, p in enumerate(places)]
        size = torch.bincount(label, minlength=N).double()
        return module._Known(centre @ whiten, rows, places, size, x @ whiten, 4)

    def whitening(x: Tensor, label: Tensor) -> Tensor:
        apart = x - torch.stack([x[label == c].mean(0) for c in range(N)])[label]
        root = torch.linalg.cholesky(apart.T @ apart / len(x))
        return torch.linalg.inv(root).T

    def likelihoods(known: module._Known, whiten: Tensor, q: Tensor) -> Tensor:
        shapes = known.shapes(whiten)
        return torch.stack(
            [
                module._gaussian((q @ whiten - shapes.centre[c])[None], *of)[0]
                for c, of in enumerate(zip(shapes.basis, shapes.width, shapes.rest, strict=True))
            ]
        )

    whiten = whitening(x, label)
    whole = known(x, label, whiten)
    weight = torch.zeros(len(x)).double()
    weight[i] = 1
    said = whole.left_out(whole.shapes(whiten), label, weight)[i]
    rest = torch.arange(len(x)) != i
    whiten = whitening(x[rest], label[rest])
    expected = likelihoods(known(x[rest], label[rest], whiten), whiten, x[i])
    # Only differences between classes count. What is left open: that directions turn with the common scatter.
    torch.testing.assert_close(said - said.mean(), expected - expected.mean(), atol=0.1, rtol=0.05)
    flattered = likelihoods(whole, whitening(x, label), x[i])
    error = (said - said.mean() - expected + expected.mean()).abs().max()
    assert error < 0.5 * (flattered - flattered.mean() - expected + expected.mean()).abs().max()


def test_classes_that_only_their_shapes_tell_apart_are_told_apart() -> None:
    f, y = narrow_and_wide(6000, 4, 100)
    queries, answers = narrow_and_wide(300, 5, 100)
    right = {}
    for shapes in (0, 8):
        readout, state = learned(f, y, shapes)
        with torch.no_grad():
            right[shapes] = float((readout.read(queries, state).argmax(-1) == answers).float().mean())
    assert right[8] > right[0] + 0.05


def test_definition_and_kernels_agree_and_no_answer_depends_on_its_company() -> None:
    f, y = narrow_and_wide(6000, 6, 100)
    queries, _ = narrow_and_wide(40, 7, 100)
    readout, state = learned(f, y, 8)
    with torch.no_grad():
        ours = readout.read(queries, state)
        alone = torch.cat([readout.read(queries[:, q : q + 1], state) for q in range(40)], 1)
        prepared = readout.prepare(state)
    assert isinstance(prepared, Compiled)
    assert prepared.shapes is not None
    assert torch.equal(ours, alone)
    with torch.enable_grad():
        defined = readout.read(queries, state)
    torch.testing.assert_close(ours, defined.detach(), atol=2e-3, rtol=1e-3)


def test_shapes_are_dropped_where_the_examination_speaks_against_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    f, y = narrow_and_wide(6000, 8, 100)
    readout, state = learned(f, y, 8)
    with torch.no_grad():
        taken = readout.prepare(state)
    assert isinstance(taken, Compiled)
    assert taken.shapes is not None
    monkeypatch.setattr(module, "SECOND", -2.0)  # the opposite of what shapes say
    readout._latest = None
    with torch.no_grad():
        dropped = readout.prepare(state)
    assert isinstance(dropped, Compiled)
    assert dropped.shapes is None


def test_a_stream_of_the_length_of_meta_training_is_answered_without_shapes() -> None:
    f, y = narrow_and_wide(2000, 9)
    queries, _ = narrow_and_wide(50, 10)
    said = []
    for shapes in (0, 8):
        readout, state = learned(f, y, shapes)
        with torch.no_grad():
            said.append(readout.read(queries, state))
    assert torch.equal(*said)


def test_a_forgotten_class_loses_its_directions_and_merged_states_keep_theirs() -> None:
    f, y = narrow_and_wide(900, 11)
    readout, state = learned(f, y, 4)
    without = readout.forget(state, 1)
    assert torch.equal(without["directions"], state["directions"][:, [0, 2]])
    merged = readout.merge([state, without])
    expected = torch.cat([state["directions"], without["directions"]], 1)
    assert torch.equal(merged["directions"], expected)
    assert not readout.grow(state, N + 2)["directions"][:, N:].any()


def test_a_class_of_average_width_counts_as_the_common_scatter() -> None:
    """Rows that scatter by one in every direction give a round class of variance one."""
    rows = math.sqrt(4000) * torch.eye(D).double()
    _, width, rest = module._shape(rows, torch.tensor(4000.0).double(), 4)
    torch.testing.assert_close(width, torch.ones(4).double())
    torch.testing.assert_close(rest, torch.tensor(1.0).double())
