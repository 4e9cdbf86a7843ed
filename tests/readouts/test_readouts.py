"""Read-outs against their definitions, by scikit-learn, scipy, autograd and finite differences."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.base import BaseEstimator
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge as SklearnRidge
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from torch.nn import functional as F

from autocl.errors import InputError
from autocl.readouts import READOUTS, ReadoutConfig, build_readout
from autocl.readouts.knn import NeighbourReadout
from autocl.readouts.means import LDAReadout, MeanReadout, NormalGamma
from autocl.readouts.online import OnlineHead
from autocl.readouts.ridge import NetworkReadout

FEATURES, OUTPUTS = 6, 4


def make(name, **options):
    torch.manual_seed(0)
    options = {"kernel": {"keys": 7}, "online": {"hidden": 5, "rate": 0.1}}.get(name, {}) | options
    return build_readout(ReadoutConfig(kind=name, **options), n_features=FEATURES, n_classes=OUTPUTS)


NAMES = READOUTS.names()
CLOSED = [name for name in NAMES if name != "online"]


def demos(n=20, batch=2, seed=0):
    g = torch.Generator().manual_seed(seed)
    y = torch.arange(n).remainder(OUTPUTS).expand(batch, -1)
    f = F.one_hot(y, FEATURES) + 0.5 * torch.randn(batch, n, FEATURES, generator=g)
    return f, y


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=15, deadline=None)
@given(cut=st.integers(1, 19), seed=st.integers(0, 99))
def test__learn__in_two_parts_equals_learn_at_once(name, cut, seed):
    readout = make(name)
    f, y = demos(seed=seed)
    start = readout.initial_state(2, OUTPUTS)
    before = {k: t.clone() for k, t in start.items()}
    once = readout.learn(f, y, start)
    twice = readout.learn(f[:, cut:], y[:, cut:], readout.learn(f[:, :cut], y[:, :cut], start))
    query = demos(8, seed=seed + 1)[0]
    torch.testing.assert_close(readout.read(query, once), readout.read(query, twice), rtol=1e-4, atol=1e-5)
    assert all(torch.equal(t, before[k]) for k, t in start.items())


@pytest.mark.parametrize(
    ("name", "tolerance"), [(name, 1e-4) for name in CLOSED] + [("universal, body and all", 5e-3)]
)
def test__order_of_demos__does_not_matter_to_closed_forms(name, tolerance):
    readout = make(name.partition(",")[0])
    if name == "universal":  # its body examines every other demo in memory: a little depends on the order
        torch.nn.init.constant_(readout.combiner.body.log_rate, -torch.inf)
    (f, y), turn = demos(), torch.randperm(20)
    start = readout.initial_state(2, OUTPUTS)
    query = demos(8, seed=1)[0]
    straight = readout.read(query, readout.learn(f, y, start))
    shuffled = readout.read(query, readout.learn(f[:, turn], y[:, turn], start))
    torch.testing.assert_close(straight, shuffled, rtol=1e-4, atol=tolerance)


@pytest.mark.parametrize("name", CLOSED)
def test__grow__later_equals_enough_room_from_the_start(name):
    readout = make(name)
    (f, y), query = demos(), demos(8, seed=1)[0]
    roomy = readout.learn(f, y, readout.initial_state(2, OUTPUTS))
    few = readout.learn(f[:, :2], y[:, :2], readout.initial_state(2, 2))
    grown = readout.learn(f[:, 2:], y[:, 2:], readout.grow(few, OUTPUTS))
    assert readout.n_classes(grown) == OUTPUTS
    torch.testing.assert_close(readout.read(query, grown), readout.read(query, roomy), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(readout.counts(grown), readout.counts(roomy))


@pytest.mark.parametrize("name", CLOSED)
def test__merge__equals_one_state_that_learned_everything(name):
    readout = make(name)
    (f, y), query = demos(), demos(8, seed=1)[0]
    whole = readout.learn(f, y, readout.initial_state(2, OUTPUTS))
    rows = [torch.arange(20)[y[0] // 2 == half] for half in (0, 1)]
    halves = [readout.learn(f[:, r], y[:, r] % 2, readout.initial_state(2, 2)) for r in rows]
    torch.testing.assert_close(
        readout.read(query, readout.merge(halves)), readout.read(query, whole), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("name", NAMES)
def test__gradients__reach_the_features_of_demos_and_queries(name):
    readout = make(name)
    (f, y), query = demos(), demos(8, seed=1)[0]
    f.requires_grad_(), query.requires_grad_()
    F.cross_entropy(
        readout.read(query, readout.learn(f, y, readout.initial_state(2, OUTPUTS))).flatten(0, 1),
        torch.arange(16) % OUTPUTS,
    ).backward()
    assert f.grad.abs().sum() > 0
    assert query.grad.abs().sum() > 0


def answers(readout, query):
    f, y = demos()
    return readout.read(query, readout.learn(f, y, readout.initial_state(2, OUTPUTS)))


def test__nearest_mean__answers_as_scikit_learn():
    query = demos(40, seed=1)[0]
    f, y = demos()
    for b, scores in enumerate(answers(MeanReadout(FEATURES), query)):
        assert np.array_equal(scores.argmax(-1), NearestCentroid().fit(f[b], y[b]).predict(query[b]))


def test__lda__answers_as_scikit_learn_with_the_same_shrinkage():
    query = demos(40, seed=1)[0]
    f, y = demos()
    ours = answers(LDAReadout(FEATURES, 0.3), query)
    for b in range(2):
        # scikit-learn standardises before it shrinks unless it is handed the covariance it is to use.
        centred = f[b] - torch.stack([f[b][y[b] == c].mean(0) for c in y[b]])
        covariance = (centred.T @ centred / len(centred)).double()
        shrunk = 0.7 * covariance + 0.3 * covariance.diagonal().mean() * torch.eye(FEATURES)
        model = LinearDiscriminantAnalysis(
            solver="lsqr", covariance_estimator=Given(shrunk.numpy()), priors=[1 / OUTPUTS] * OUTPUTS
        ).fit(f[b].double(), y[b])
        theirs = torch.from_numpy(model.decision_function(query[b].double())).float()
        gap = ours[b] - theirs
        torch.testing.assert_close(gap, gap[:, :1].expand_as(gap), rtol=1e-3, atol=1e-3)


class Given(BaseEstimator):
    """A covariance estimator that knows the answer."""

    def __init__(self, answer=None):
        self.answer = answer

    def fit(self, X):
        self.covariance_ = self.answer
        return self


def test__ridge__solves_the_penalised_least_squares():
    query = demos(40, seed=1)[0]
    f, y = demos()
    ridge = NetworkReadout(features=FEATURES, keys=0, hidden=0, penalty=0.7)
    ours = (answers(ridge, query) / ridge.log_scale.exp()).detach()
    for b in range(2):
        keys = torch.cat([F.normalize(f[b], dim=-1), torch.ones(20, 1)], dim=1)
        asked = torch.cat([F.normalize(query[b], dim=-1), torch.ones(40, 1)], dim=1)
        model = SklearnRidge(alpha=0.7, fit_intercept=False).fit(keys, F.one_hot(y[b], OUTPUTS))
        np.testing.assert_allclose(ours[b], model.predict(asked), rtol=1e-3, atol=1e-4)


def test__knn__votes_as_scikit_learn():
    query = demos(40, seed=1)[0]
    f, y = demos()
    ours = answers(NeighbourReadout(FEATURES, 3), query)
    for b in range(2):
        model = KNeighborsClassifier(3, weights="distance").fit(f[b], y[b])
        np.testing.assert_allclose(ours[b], model.predict_proba(query[b]), rtol=1e-3, atol=1e-4)


def test__gemcl__predictive_is_the_integral_over_the_posterior():
    readout = NormalGamma(1, bayesian=True).double()
    with torch.no_grad():
        readout.centre.fill_(0.3)
        readout.raw_kappa.fill_(0.2)
    f = torch.tensor([[[0.5], [1.5], [0.2]]], dtype=torch.float64)
    known = {
        k: t.double()
        for k, t in readout.learn(f, torch.zeros(1, 3, dtype=torch.long), readout.initial_state(1, 1)).items()
    }
    m, kappa, alpha, beta = (float(t.detach()) for t in readout.posterior(known))
    m0, kappa0, alpha0, beta0 = (float(t.detach()) for t in readout._prior())
    x = 1.1
    # Bayes' rule on a grid: prior times likelihood of the demos, with and without the query.
    mean, precision = np.linspace(-8, 8, 1601)[:, None], np.linspace(5e-3, 60, 6000)[None]
    joint = stats.gamma.pdf(precision, alpha0, scale=1 / beta0)
    joint = joint * stats.norm.pdf(mean, m0, (kappa0 * precision) ** -0.5)
    for demo in f.flatten().tolist():
        joint = joint * stats.norm.pdf(demo, mean, precision**-0.5)
    with_x = joint * stats.norm.pdf(x, mean, precision**-0.5)
    ours = float(readout.read(torch.tensor([[[x]]], dtype=torch.float64), known).detach())
    assert ours == pytest.approx(np.log(with_x.sum() / joint.sum()), abs=1e-3)
    t = stats.t(2 * alpha, loc=m, scale=(beta * (kappa + 1) / (alpha * kappa)) ** 0.5)
    assert ours == pytest.approx(t.logpdf(x), abs=1e-6)


def test__gemcl_map__is_the_gaussian_at_the_posteriors_mode():
    readout = NormalGamma(FEATURES, bayesian=False)
    f, y = demos()
    known = readout.learn(f, y, readout.initial_state(2, OUTPUTS))
    m, _, alpha, beta = (t.detach() for t in readout.posterior(known))
    precision = (alpha - 0.5) / beta
    query = demos(8, seed=1)[0]
    exact = torch.distributions.Normal(m[:, None], precision[:, None] ** -0.5).log_prob(query[:, :, None])
    torch.testing.assert_close(readout.read(query, known), exact.sum(-1), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("hidden", [0, 5])
def test__online_head__steps_down_the_gradient_of_the_cross_entropy(hidden):
    head = OnlineHead(FEATURES, OUTPUTS, hidden=hidden, rate=0.3)
    f, y = demos(1)
    start = head.initial_state(2, OUTPUTS)
    leaves = {k: t.detach().clone().requires_grad_() for k, t in start.items()}
    F.cross_entropy(head.read(f, leaves)[:, 0], y[:, 0], reduction="sum").backward()
    new = head.learn(f, y, start)
    for key, leaf in leaves.items():
        torch.testing.assert_close(new[key], (leaf - 0.3 * leaf.grad).detach())


@pytest.mark.parametrize("hidden", [0, 4])
def test__oml__meta_gradient_is_second_order_and_exact(hidden):
    """Finite differences of the loss after six online steps, by every parameter and every feature."""
    torch.manual_seed(1)
    head = OnlineHead(FEATURES, OUTPUTS, hidden=hidden, rate=0.5).double()
    f, y = demos(6)
    query, label = demos(5, seed=1)
    names = [f"head.{name}" for name, _ in head.named_parameters()]

    def after(f, *values):
        weights = dict(zip(names, values, strict=True))
        return torch.func.functional_call(Passage(head), weights, (f, y, query.double(), label))

    inputs = [f.double().requires_grad_(), *(p.detach().clone().requires_grad_() for p in head.parameters())]
    assert torch.autograd.gradcheck(after, inputs, eps=1e-6, atol=1e-6)


class Passage(torch.nn.Module):
    """Loss of the queries after learning the demos."""

    def __init__(self, head):
        super().__init__()
        self.head = head

    def forward(self, f, y, query, label):
        known = self.head.learn(f, y, self.head.initial_state(2, OUTPUTS))
        return F.cross_entropy(self.head.read(query, known).flatten(0, 1), label.flatten())


def test__online_head__goes_over_the_demos_again_when_told_to_and_refuses_too_many_outputs():
    once, again = (make("online", hidden=0, iterations=n) for n in (1, 2))
    f, y = demos(8)
    start = once.initial_state(2, 4)
    twice = once.learn(f, y, once.learn(f, y, start))
    assert (once.steps_per_demo, again.steps_per_demo) == (1, 2)
    assert torch.equal(again.learn(f, y, start)["last.weight"], twice["last.weight"])
    assert once.read(f, once.initial_state(2, 2)).shape == (2, 8, 2)
    with pytest.raises(InputError, match="5 classes are too many"):
        once.initial_state(2, 5)


def test__unknown_names_and_values__are_refused_with_the_alternatives():
    with pytest.raises(
        InputError, match=r"kind='rigde' is not known: did you mean 'ridge'\? choose one of .*lda"
    ):
        ReadoutConfig(kind="rigde")
    for wrong in ({"shrinkage": 0.0}, {"penalty": 0.0}, {"neighbours": 0}, {"rate": 0.0}, {"iterations": 0}):
        with pytest.raises(InputError, match=f"ReadoutConfig.{next(iter(wrong))} must be"):
            ReadoutConfig(**wrong)
    with pytest.raises(InputError, match="keys must be at least 2 for a kernel"):
        make("kernel", keys=0)


@pytest.mark.parametrize("name", NAMES)
def test__device__every_tensor_is_made_where_the_read_out_is(name):
    """The meta device knows shapes only: an operation with a tensor elsewhere fails on it."""
    if name == "universal":
        pytest.skip("its memory asks how many places are free, which shapes alone do not tell")
    readout = make(name).to("meta")
    f, y = (t.to("meta") for t in demos())
    state = readout.learn(f, y, readout.initial_state(2, OUTPUTS))
    scores = readout.read(f, state)
    assert {t.device.type for t in (*state.values(), scores)} == {"meta"}
    if name != "online":
        assert readout.merge([state, state])[next(iter(readout.per_class))].device.type == "meta"
