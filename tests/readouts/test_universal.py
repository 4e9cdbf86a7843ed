"""The universal read-out: memory without loss of moments, honest examination, answers without favourites."""

import pickle

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from autocl.errors import InputError
from autocl.evaluation.world.rivals import Problem, shrunk_lda
from autocl.evaluation.world.streams import Passage
from autocl.readouts import cholesky, universal
from autocl.readouts import memory as memory_module
from autocl.readouts.base import State
from autocl.readouts.combiner import BOUND
from autocl.readouts.examination import LONGEST, UNSEEN, examine, facts_of
from autocl.readouts.experts import (
    KERNELS,
    LEAST_COSINE,
    NAMES,
    NEVER,
    SHARP,
    SHRINKAGE,
    WHITENED_KERNEL,
    WHITENING,
    all_experts,
    discriminants,
    inner_product,
    kernels,
    ridge,
    whitened_kernel,
)
from autocl.readouts.groups import REACH, classes_of, clusters_of
from autocl.readouts.memory import FREE, LARGEST, Memory, packed, unpacked
from autocl.readouts.universal import UniversalReadout, moments_of


def stream(n: int, length: int, classes: int, seed: int = 0, batch: int = 1) -> tuple[Tensor, Tensor]:
    """Clusters: features [B, n, F] and labels [B, n]; every class has at least two demos."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.cat(
        [torch.arange(classes).repeat(2), torch.randint(classes, (n - 2 * classes,), generator=generator)]
    )
    centre = 2 * torch.randn(batch, classes, length, generator=generator)
    return centre[:, y] + torch.randn(batch, n, length, generator=generator), y.expand(batch, -1)


@pytest.fixture
def readout() -> UniversalReadout:
    torch.manual_seed(0)
    made = UniversalReadout()
    with torch.no_grad():  # a combiner that distinguishes, as a trained one does
        for weight in made.combiner.gate.parameters():
            weight.add_(0.3 * torch.randn_like(weight))
        for weight in made.combiner.reader.parameters():
            weight.add_(0.05 * torch.randn_like(weight))
    return made


def learned(readout: UniversalReadout, f: Tensor, y: Tensor, classes: int) -> State:
    return readout.learn(f, y, readout.initial_state(len(f), classes))


def metric_without(x: Tensor, group: Tensor, i: int, level: Tensor) -> Tensor:
    """Inverse of level · I plus the scatter [D, D] within groups of all demos x [n, D] but one."""
    rest = torch.arange(len(x)) != i
    parts = [x[rest & (group == g)] for g in group[rest].unique()]
    apart = torch.cat([part - part.mean(0) for part in parts])
    return torch.linalg.inv(apart.T @ apart + level * torch.eye(x.shape[1]))


@pytest.mark.parametrize("length", [3, 40])
def test_left_out_is_what_leaving_out_gives(readout: UniversalReadout, length: int) -> None:
    f, y = stream(14, length, 3)
    f = f.double()
    whole = moments_of(learned(readout, f, y, 3))
    experts = torch.cat([kernels(whole).left_out, ridge(whole).left_out], 1)
    for i in range(14):
        rest = [j for j in range(14) if j != i]
        # Centre and unit of length are those of the whole stream, as the experts' keys are.
        without = moments_of(learned(readout, f[:, rest], y[:, rest], 3))
        without = without._replace(mean=whole.mean, spread=whole.spread, size=whole.size)
        if without.second is not None:
            apart = without.memory.prototype - whole.mean
            without = without._replace(second=apart.mT @ apart + 13 * whole.mean.mT @ whole.mean)
        query = readout.key(f[:, i : i + 1])
        said = torch.cat([kernels(without).read(query), ridge(without).read(query)], 1)[:, :, 0]
        torch.testing.assert_close(experts[:, :, i], said, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("length", [3, 40])
def test_the_whitened_kernel_is_not_examined_in_a_metric_that_knows_the_answer(
    readout: UniversalReadout, length: int
) -> None:
    f, y = stream(14, length, 3)
    whole = moments_of(learned(readout, f.double(), y, 3))
    expert = whitened_kernel(whole)
    x = whole.memory.prototype[0, :14]
    D, target = x.shape[1], whole.target[0, :14]
    level = WHITENING * whole.spread[0, 0, 0] * 14 / D
    among_others = metric_without(x, y[0], -1, level)

    def near(metric: Tensor, a: Tensor, b: Tensor) -> Tensor:
        apart = a[:, None] - b
        return torch.exp(-expert.rate[0, 0] * torch.einsum("ijd,de,ije->ij", apart, metric, apart))

    for i in range(14):
        rest = [j for j in range(14) if j != i]
        kernel = near(among_others, x[rest], x[rest]) + WHITENED_KERNEL[1] * torch.eye(13)
        asked = near(metric_without(x, y[0], i, level), x[i : i + 1], x[rest])
        said = asked @ torch.linalg.solve(kernel, target[rest])
        torch.testing.assert_close(expert.left_out[0, 0, i], said[0], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("last", [1, 7, 90])
def test_rows_of_an_inverse_are_those_of_the_whole_inverse(last: int) -> None:
    rows = np.random.default_rng(0).standard_normal((90, 120))
    matrix = rows @ rows.T
    found = cholesky.inverse_rows(cholesky.factor(matrix, 0.5), last)
    np.testing.assert_allclose(found, np.linalg.inv(matrix + 0.5 * np.eye(90))[-last:], rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("rows", [4, 12])
def test_inner_products_of_few_rows_are_those_of_the_whole_matrix(rows: int) -> None:
    generator = torch.Generator().manual_seed(0)
    B, u, v = (torch.randn(2, n, 9, generator=generator).double() for n in (rows, 5, 6))
    level = torch.tensor([0.3, 2.0]).double()[:, None, None]
    inner = inner_product(B, level, None)
    A = torch.linalg.inv(level * torch.eye(9) + B.mT @ B)
    torch.testing.assert_close(inner.times(v), v @ A)
    torch.testing.assert_close(inner.square(u), (u @ A @ u.mT).diagonal(dim1=1, dim2=2))
    whole = inner_product(B, level, B.mT @ B)
    torch.testing.assert_close(inner.times(v), whole.times(v))
    torch.testing.assert_close(inner.square(u), whole.square(u))


def test_every_expert_has_a_name(readout: UniversalReadout) -> None:
    f, y = stream(20, 40, 3)
    experts = all_experts(moments_of(learned(readout, f, y, 3)))
    assert experts.left_out.shape[1] == len(NAMES) == len(KERNELS) + len(REACH) + 6
    assert experts.read(f[:, :7].double()).shape == (1, len(NAMES), 7, 3)


def test_discriminant_and_cosines_leave_a_demo_out_of_mean_and_scatter(readout: UniversalReadout) -> None:
    f, y = stream(12, 40, 3)
    whole = moments_of(learned(readout, f.double(), y, 3))
    places = [NAMES.index(name) for name in ("lda", "sharp lda", "cosine", "means")]
    left_out = all_experts(whole).left_out[0, places]
    x = whole.memory.prototype[0, :12]
    apart = x - whole.centre[0, y[0]]
    levels = [(prior * whole.spread[0, 0, 0] + apart.square().sum()) / 40 for prior in (SHRINKAGE, SHARP)]
    round_x = torch.nn.functional.normalize(x - whole.mean[0], dim=-1)
    raw, sharp, cos, plain = (torch.zeros(12, 3).double() for _ in range(4))
    for i in range(12):
        metrics = [metric_without(x, y[0], i, level) for level in levels]
        for c in range(3):
            members = [j for j in range(12) if y[0, j] == c and j != i]
            centre = x[members].mean(0)
            for scores, metric in zip((raw, sharp), metrics, strict=True):
                scores[i, c] = x[i] @ metric @ centre - 0.5 * centre @ metric @ centre
            cos[i, c] = round_x[i] @ torch.nn.functional.normalize(round_x[members].mean(0), dim=-1)
            plain[i, c] = x[i] @ torch.nn.functional.normalize(x[members].mean(0), dim=-1)
    least_of = (0, 0, LEAST_COSINE, LEAST_COSINE)
    for said, scores, least in zip(left_out, (raw, sharp, cos, plain), least_of, strict=True):
        scale = (scores.var(correction=0) + 0.01 * scores.mean() ** 2 + least**2).rsqrt()
        torch.testing.assert_close(said[:12], scores * scale, rtol=1e-6, atol=1e-8)


def test_without_a_prior_the_discriminants_are_the_shrunk_lda_of_the_world_table(
    readout: UniversalReadout,
) -> None:
    f, y = stream(50, 40, 3)
    x, q = f[:, :30].double(), f[:, 30:].double()
    moments = moments_of(learned(readout, x, y[:, :30], 3))
    ours = discriminants(moments, classes_of(moments), prior=0.0).read(readout.key(q))[0, 0]
    passage = Passage("", x[0].numpy(), y[0, :30].numpy(), np.array([30]), q[0].numpy(), y[0, 30:].numpy())
    theirs = torch.from_numpy(shrunk_lda(Problem(passage, 3)))
    # Up to a factor, which no comparison of classes depends on.
    torch.testing.assert_close(ours / ours.std(), theirs / theirs.std(), rtol=1e-8, atol=1e-10)


def test_a_label_that_names_two_things_has_two_clusters(readout: UniversalReadout) -> None:
    f, thing = stream(32, 40, 4)
    whole = moments_of(learned(readout, f.double(), thing % 2, 2))
    for groups in clusters_of(whole):
        number = groups.member.argmax(-1)
        assert groups.owner[0, number[0]].tolist() == (thing % 2)[0].tolist()
        # Demos of one cluster show one thing.
        assert all(len(thing[number == g].unique()) == 1 for g in number.unique())
    assert int(number.max()) + 1 == 4  # the wider reach finds the four things


def test_clusters_score_a_demo_without_it_by_the_best_of_a_class(readout: UniversalReadout) -> None:
    f, thing = stream(24, 40, 4)
    y = thing % 2
    whole = moments_of(learned(readout, f.double(), y, 2))
    x = whole.memory.prototype[0]
    for r, groups in enumerate(clusters_of(whole)):
        number = groups.member[0].argmax(-1)
        means = torch.stack([x[number == g].mean(0) for g in range(groups.member.shape[2])])
        apart = x - means[number]
        shrinkage = (SHRINKAGE * whole.spread[0, 0, 0] + apart.square().sum()) / 40
        raw = torch.full((24, 2), -torch.inf).double()
        for i in range(24):
            metric = metric_without(x, number, i, shrinkage)
            for g in range(len(means)):
                members = [j for j in range(24) if number[j] == g and j != i]
                if members:
                    centre = x[members].mean(0)
                    score = x[i] @ metric @ centre - 0.5 * centre @ metric @ centre
                    c = int(groups.owner[0, g])
                    raw[i, c] = torch.maximum(raw[i, c], score)
        scale = (raw.var(correction=0) + 0.01 * raw.mean() ** 2).rsqrt()
        said = all_experts(whole).left_out[0, NAMES.index(f"clusters {REACH[r]:g}")]
        torch.testing.assert_close(said, raw * scale, rtol=1e-6, atol=1e-8)


def test_scores_of_two_demos_stay_in_bounds(readout: UniversalReadout) -> None:
    f, y = torch.randn(1, 2, 64), torch.tensor([[0, 1]])
    experts = all_experts(moments_of(learned(readout, f, y, 2)))
    assert float(experts.read(readout.key(f).double()).abs().max()) < 100


@pytest.mark.parametrize("places", [9, 20])
def test_merging_keeps_first_and_second_moments_of_every_class(
    readout: UniversalReadout, places: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(universal, "PLACES", places)
    f, y = stream(150, 5, 4, batch=2)
    memory = Memory.of(learned(readout, f.double(), y, 4))
    assert (memory.label != FREE).all()
    assert torch.equal(memory.places_of(4), torch.stack([(memory.label == c).sum(1) for c in range(4)], 1))
    second = memory.prototype.mT @ (memory.prototype * memory.weight[..., None])
    second = second + memory.scatter_matrix
    torch.testing.assert_close(second, f.double().mT @ f.double())
    for c in range(4):
        mine = (memory.label == c)[..., None] * memory.weight[..., None] * memory.prototype
        theirs = (y == c)[..., None] * f
        torch.testing.assert_close(mine.sum(1), theirs.double().sum(1))
        torch.testing.assert_close((memory.weight * (memory.label == c)).sum(1), (y == c).sum(1).double())


@pytest.mark.parametrize("size", [1, 2, 7])
def test_a_packed_matrix_comes_back(size: int) -> None:
    matrix = torch.randn(3, size, size)
    matrix = matrix + matrix.mT
    triangle = packed(matrix)
    assert triangle.shape == (3, size * (size + 1) // 2)
    assert torch.equal(unpacked(triangle), matrix)
    memory = Memory.empty(3, 4, matrix)._replace(scatter=triangle)
    torch.testing.assert_close(memory.scatter_trace, matrix.diagonal(dim1=1, dim2=2).sum(1))


def test_a_state_that_holds_the_whole_scatter_is_renewed(readout: UniversalReadout) -> None:
    f, y = stream(300, 9, 3)
    state = learned(readout, f, y, 3)
    old = {**state, "scatter": unpacked(state["scatter"])}
    assert old["scatter"].any()
    assert all(torch.equal(t, state[name]) for name, t in readout.renewed(old).items())
    for form in (state, {**old, "scatter": torch.zeros(1, 9, 8)}, {"count": state["count"]}):
        assert readout.renewed(form) is form


def test_a_state_without_directions_is_renewed() -> None:
    readout = UniversalReadout(9, shapes=4)
    f, y = stream(300, 9, 3)
    state = learned(readout, f, y, 3)
    assert state["directions"].any()
    renewed = readout.renewed({name: t for name, t in state.items() if name != "directions"})
    assert renewed["directions"].shape == state["directions"].shape
    assert renewed["directions"].dtype == torch.float16
    assert not renewed["directions"].any()
    assert all(torch.equal(t, state[name]) for name, t in renewed.items() if name != "directions")


def test_a_full_memory_merges_the_closest_pair_of_one_label(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_module, "SINGLE", 100)  # no place is kept for a single demo
    x = torch.tensor([[[0.0, 0.0], [0.1, 0.0], [0.1, 0.05], [9.0, 0.0]]])
    y = torch.tensor([[0, 0, 1, 1]])
    memory = Memory.empty(1, 4, x[0, 0]).learn(x, y).learn(torch.tensor([[[5.0, 5.0]]]), torch.tensor([[1]]))
    # The two nearest of all have other labels; those of one label that lie closest are the first two.
    assert memory.weight.tolist() == [[2.0, 1.0, 1.0, 1.0]]
    assert memory.label.tolist() == [[0, 1, 1, 1]]
    torch.testing.assert_close(memory.prototype[0, :2], torch.tensor([[0.05, 0.0], [5.0, 5.0]]))


def test_single_demos_are_kept_from_the_whole_stream_with_equal_chances() -> None:
    kept = torch.zeros(2000)
    for label in range(4):  # other vectors, but the same places: what is kept depends on the order alone
        x = torch.stack([torch.arange(2000.0), torch.full((2000,), label)], -1)[None]
        memory = Memory.empty(1, 256, x[0, 0]).learn(x, torch.full((1, 2000), label))
        singles = memory.prototype[0, :64]
        assert (memory.weight[0, :64] == 1).all()
        assert (singles[:, 1] == label).all()
        assert memory.sample[0].tolist() == [True] * 64 + [False] * 192
        kept[singles[:, 0].long()] += 1
    quarters = kept.view(4, 500).sum(1) / 4
    assert quarters.sum() == 64
    assert (quarters - 16).abs().max() < 11  # three deviations of a draw of 64


def test_experts_are_examined_on_single_demos_only(readout: UniversalReadout) -> None:
    f, y = stream(400, 40, 3)
    moments = moments_of(learned(readout, f, y, 3))
    assert (moments.memory.weight > 1).any()
    exam = examine(all_experts(moments).left_out, moments)
    assert exam.left_out.shape[2] == 64
    assert (exam.weight > 0).all()
    for e in range(len(NAMES)):
        scores = all_experts(moments).left_out[0, e, :64]
        right = (scores.argmax(-1) == moments.memory.label[0, :64]).double().mean()
        torch.testing.assert_close(exam.accuracy[0, e], right)


def test_a_stream_longer_than_in_meta_training_is_described_as_the_longest() -> None:
    def facts(n: int) -> Tensor:
        label = torch.arange(256)[None] % 4
        memory = Memory(
            torch.eye(256, 40)[None], torch.full((1, 256), n / 256), label, packed(torch.eye(40))[None]
        )
        return facts_of(moments_of({"count": torch.full((1, 4), n / 4), **memory._asdict()}))

    described = [0, 1, 2, 3, 5, 6]  # the spread is estimated
    torch.testing.assert_close(facts(1024)[0, 6], torch.tensor(4.0, dtype=torch.float64).log())
    torch.testing.assert_close(facts(1_000_000)[:, described], facts(LONGEST)[:, described])


def test_the_shape_of_a_short_stream_does_not_depend_on_its_scale(readout: UniversalReadout) -> None:
    f, y = stream(9, 30, 3)
    facts = [facts_of(moments_of(learned(readout, scale * f, y, 3))) for scale in (1.0, 1e12)]
    torch.testing.assert_close(facts[0], facts[1])


@pytest.mark.parametrize("cut", [1, 10, 70])
def test_learning_in_parts_is_learning_at_once(
    readout: UniversalReadout, cut: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(universal, "PLACES", 32)
    f, y = stream(90, 33, 4)
    whole = learned(readout, f, y, 4)
    parts = readout.learn(f[:, cut:], y[:, cut:], learned(readout, f[:, :cut], y[:, :cut], 4))
    assert all(torch.equal(whole[name], parts[name]) for name in whole)


def test_names_of_classes_do_not_matter(readout: UniversalReadout) -> None:
    f, y = stream(40, 64, 5)
    queries = torch.randn(1, 9, 64)
    other = torch.tensor([3, 0, 4, 1, 2])
    plain = readout.read(queries, learned(readout, f, y, 5))
    renamed = readout.read(queries, learned(readout, f, other[y], 5))
    torch.testing.assert_close(renamed[..., other], plain, rtol=1e-4, atol=1e-4)


def test_streams_of_a_batch_do_not_know_each_other(readout: UniversalReadout) -> None:
    f, y = stream(30, 40, 3, batch=3)
    together = readout.read(f[:, :4], learned(readout, f, y, 3))
    for b in range(3):
        alone = readout.read(f[b : b + 1, :4], learned(readout, f[b : b + 1], y[b : b + 1], 3))
        torch.testing.assert_close(together[b : b + 1], alone, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("length", [1, 2, 31, 32, LARGEST + 100])
def test_any_length_of_features_and_any_scale(readout: UniversalReadout, length: int) -> None:
    f, y = stream(24, length, 2)
    for scale in (1e-6, 1.0, 1e6):
        state = learned(readout, scale * f, y, 2)
        assert torch.isfinite(readout.read(scale * f, state)).all()
    answers = readout.read(f, state := learned(readout, f, y, 2)).argmax(-1)
    assert (answers == y).float().mean() > (0.6 if length < 3 else 0.9)
    with pytest.raises(InputError, match="features of one length"):
        readout.learn(f[..., :1].expand(-1, -1, length + 1), y, state)


def test_classes_come_at_any_time_and_more_than_there_are_places(readout: UniversalReadout) -> None:
    f, y = stream(600, 40, 300)
    state = readout.initial_state(1, 2)
    for start in range(0, 600, 150):
        part = y[:, start : start + 150]
        state = readout.grow(state, max(state["count"].shape[1], int(part.max()) + 1))
        state = readout.learn(f[:, start : start + 150], part, state)
    assert state["weight"].shape[1] == 600
    assert (readout.read(f[:, :300], state).argmax(-1) == y[:, :300]).float().mean() > 0.9


@pytest.mark.parametrize("length", [0, 16, 40])
@pytest.mark.parametrize("gradients", [False, True])
def test_before_the_first_demo_no_class_is_likely_and_everything_new(length: int, gradients: bool) -> None:
    readout = UniversalReadout(length)
    f, y = stream(6, length or 16, 2)
    states = [readout.initial_state(1, 3)]
    for classes in (2, 3):
        states.append(readout.forget(readout.forget(learned(readout, f, y, classes), 0), 0))
    with torch.set_grad_enabled(gradients):
        for state, classes in zip(states, (3, 0, 1), strict=True):
            answer = readout.answer(f, state)
            assert (answer.logits == UNSEEN).all()
            assert answer.logits.shape == (1, 6, classes)
            assert (answer.novelty == 1).all()


def test_a_stream_without_demos_beside_one_that_has_some() -> None:
    readout = UniversalReadout(40)
    f, y = stream(6, 40, 2)
    state = learned(readout, f, y, 2)
    both = {
        name: torch.cat([t, start])
        for (name, t), start in zip(state.items(), readout.initial_state(1, 2).values(), strict=True)
    }
    answer = readout.answer(f.expand(2, -1, -1), both)
    torch.testing.assert_close(answer.logits[:1], readout.read(f, state), rtol=1e-4, atol=1e-4)
    assert (answer.logits[1] == UNSEEN).all()
    assert (answer.novelty[1] == 1).all()


def test_what_was_shown_is_known_and_what_is_far_is_new(readout: UniversalReadout) -> None:
    f, y = stream(60, 64, 3)
    state = learned(readout, f, y, 3)
    shown = readout.answer(f[:, :10], state).novelty
    strange = readout.answer(-10 * f[:, :10].mean(1, keepdim=True).expand(-1, 10, -1), state).novelty
    assert shown.max() < 1e-3
    assert strange.min() > 0.5


def test_merged_states_hold_the_classes_of_both(readout: UniversalReadout) -> None:
    f, y = stream(60, 40, 6)
    first, second = y < 3, y >= 3
    a = learned(readout, f[first][None], y[first][None], 3)
    b = learned(readout, f[second][None], y[second][None] - 3, 3)
    both = readout.merge([a, b])
    assert both["count"].tolist() == [torch.bincount(y[0]).tolist()]
    assert (readout.read(f, both).argmax(-1) == y).float().mean() > 0.9


@pytest.mark.parametrize("first", [False, True])
def test_a_state_that_never_saw_a_demo_is_merged_too(readout: UniversalReadout, first: bool) -> None:
    f, y = stream(20, 40, 3)
    state, start = learned(readout, f, y, 3), readout.initial_state(1, 2)
    both = readout.merge([start, state] if first else [state, start])
    once = learned(readout, f, y + 2 * first, 5)
    torch.testing.assert_close(readout.read(f, both), readout.read(f, once), rtol=1e-4, atol=1e-4)
    assert readout.merge([start, start])["count"].shape == (1, 4)
    with pytest.raises(InputError, match="length 30"):
        readout.merge([state, learned(readout, f[..., :30], y, 3)])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("known", [0, 40])
def test_features_of_any_precision_are_learned(dtype: torch.dtype, gradients: bool, known: int) -> None:
    readout = UniversalReadout(known)
    f, y = stream(300, 40, 3)
    with torch.set_grad_enabled(gradients):
        state = learned(readout, f[:, :10].to(dtype), y[:, :10], 3)
        state = readout.learn(f[:, 10:], y[:, 10:], state)  # one stream may hold several
        state = readout.learn(f[:, :10].to(dtype), y[:, :10], state)
        said = readout.read(f[:, :50].to(dtype), state)
    assert said.dtype == dtype
    assert (said.argmax(-1) == y[:, :50]).all()


def test_the_examination_gives_chance_to_an_expert_that_guesses(readout: UniversalReadout) -> None:
    f, y = stream(200, 40, 4)
    moments = moments_of(learned(readout, f, y, 4))
    said = torch.randn(moments.target[:, None].shape, generator=torch.Generator().manual_seed(1))
    exam = examine(torch.cat([ridge(moments).left_out, said.double()], 1), moments)
    assert exam.accuracy[0, 0] > 0.95
    assert 0.15 < exam.accuracy[0, 1] < 0.35
    assert exam.loss[0, 1].min() > exam.loss[0, 0].min() + 0.5
    torch.testing.assert_close(exam.weight.sum(1), torch.ones(1).double())


def test_a_class_with_one_demo_cannot_be_examined(readout: UniversalReadout) -> None:
    f, y = torch.randn(1, 3, 40), torch.arange(3)[None]
    moments = moments_of(learned(readout, f, y, 3))
    exam = examine(all_experts(moments).left_out, moments)
    assert (exam.weight == 0).all()
    torch.testing.assert_close(exam.accuracy, torch.full_like(exam.accuracy, 1 / 3))
    torch.testing.assert_close(exam.loss, torch.full_like(exam.loss, 3).log())
    assert (exam.left_out[0, -1].diagonal() == NEVER).all()


def test_a_reader_that_answers_at_random_is_bounded_and_costs_less_than_half_a_point() -> None:
    torch.manual_seed(0)
    readout, costs = UniversalReadout(), []
    nn.init.constant_(readout.combiner.body.log_rate, -20.0)  # the body says nothing here
    for seed in range(24):
        f, y = stream(150, 24, 10, seed)
        f = f + 1.5 * torch.randn(f.shape, generator=torch.Generator().manual_seed(seed))
        state = learned(readout, f[:, :100], y[:, :100], 10)
        nn.init.zeros_(readout.combiner.reader.out.weight)
        before = readout.read(f[:, 100:], state)
        nn.init.normal_(readout.combiner.reader.out.weight, std=3.0)
        after = readout.read(f[:, 100:], state)
        assert (after.log_softmax(-1) - before.log_softmax(-1)).abs().max() <= 2 * BOUND
        right = [(logits.argmax(-1) == y[:, 100:]).float().mean() for logits in (before, after)]
        costs.append(float(right[0] - right[1]))
    assert sum(costs) / len(costs) < 0.005


def test_what_is_kept_for_queries_is_of_this_state_and_these_weights(readout: UniversalReadout) -> None:
    f, y = stream(30, 40, 3)
    a, b = learned(readout, f, y, 3), learned(readout, f.flip(1), y, 3)
    with torch.no_grad():
        first = readout.read(f[:, :5], a)
        assert readout.prepare(a) is readout.prepare(a)
        other = readout.read(f[:, :5], b)
        assert not torch.equal(first, other)
        assert torch.equal(readout.read(f[:, :5], a), first)
        readout.combiner.reader.out.bias.add_(1.0)  # the gate's would change all shares alike
        assert not torch.equal(readout.read(f[:, :5], a), first)


def test_a_read_out_that_has_answered_can_be_pickled(readout: UniversalReadout) -> None:
    f, y = stream(30, 40, 3)
    state = learned(readout, f, y, 3)
    with torch.no_grad():
        said = readout.read(f[:, :5], state)
        copy = pickle.loads(pickle.dumps(readout))
        assert torch.equal(copy.read(f[:, :5], state), said)
