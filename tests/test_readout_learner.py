"""Learners of an encoder and a read-out: one interface with all others, in the estimator and from files."""

import copy
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from autocl import ContinualClassifier, zoo
from autocl.cli.main import main
from autocl.encoders import ENCODERS, Encoder, EncoderConfig
from autocl.errors import FileError, InputError
from autocl.estimator.checks import CHECKS, check_state_is_constant
from autocl.learner import FastWeightLearner, Learner, LearnerConfig, LearnerState, ReadoutLearner
from autocl.learner import ReadoutLearnerConfig as Config
from autocl.readouts import READOUTS, ReadoutConfig
from autocl.readouts.universal import UniversalReadout

SMALL = {"n_classes": 3, "channels": 1, "height": 16, "width": 16, "encoder": EncoderConfig(width=4)}
KINDS = READOUTS.names()
SHIPPED = ["prototypes", "gemcl", "gemcl-map", "oml", "oml-tuned", "anml"]


def make(kind: str = "means", **changes: object) -> ReadoutLearner:
    torch.manual_seed(0)
    readout = ReadoutConfig(kind=kind, keys=8 if kind == "kernel" else 0, rate=0.1)
    learner = Learner(Config(readout=readout, **{**SMALL, **changes})).eval()
    assert isinstance(learner, ReadoutLearner)
    return learner


def demos(n: int = 9, classes: int = 3) -> tuple[Tensor, Tensor]:
    g = torch.Generator().manual_seed(1)
    return torch.randn(1, n, 1, 16, 16, generator=g), torch.arange(n)[None] % classes


def test_a_configuration_makes_its_own_kind_of_learner() -> None:
    assert type(Learner(Config())) is ReadoutLearner
    assert type(Learner(LearnerConfig())) is FastWeightLearner
    assert type(copy.deepcopy(Learner(Config()))) is ReadoutLearner
    with pytest.raises(InputError, match="made of one of LearnerConfig, ReadoutLearnerConfig"):
        Learner("everyday")  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS)
def test_file_round_trip_is_exact(kind: str, tmp_path: Path) -> None:
    learner, (x, y) = make(kind, unit_features=True), demos()
    again = Learner.from_pretrained(learner.save_pretrained(tmp_path / "l.safetensors"))
    assert again.config == learner.config
    assert again.fingerprint() == learner.fingerprint()
    state = learner.learn(x, y, learner.initial_state())
    state.save(tmp_path / "s.safetensors", learner)
    assert LearnerState.load(tmp_path / "s.safetensors", again) == state
    assert torch.equal(again.predict(x, state), learner.predict(x, state))


@pytest.mark.parametrize("kind", [k for k in KINDS if k != "online"])
def test_a_state_grows_with_the_labels_it_meets(kind: str) -> None:
    learner, (x, y) = make(kind), demos(12, classes=6)
    grown = learner.learn(x, y, learner.initial_state())
    asked = learner.learn(x, y, learner.initial_state(n_classes=6))
    assert (learner.outputs(learner.initial_state()), learner.outputs(grown)) == (3, 6)
    assert learner.fits(grown)
    assert learner.predict(x, grown).shape == (1, 12, 6)
    torch.testing.assert_close(learner.predict(x, grown), learner.predict(x, asked))


def test_a_state_whose_tensors_disagree_on_the_classes_is_refused(tmp_path: Path) -> None:
    learner = make("means")
    tensors = dict(learner.initial_state(n_classes=4).tensors)
    wrong = LearnerState({**tensors, "count": tensors["count"][:, :3]})
    assert not learner.fits(wrong)
    wrong.save(tmp_path / "s.safetensors", learner)
    with pytest.raises(FileError, match="disagree on the number of classes"):
        LearnerState.load(tmp_path / "s.safetensors", learner)


def test_an_online_head_does_not_grow() -> None:
    learner, (x, y) = make("online"), demos(12, classes=6)
    with pytest.raises(InputError, match=r"labels must lie in 0\.\.2 for this learner, got 5"):
        learner.learn(x, y, learner.initial_state())
    more = learner.with_classes(6)
    assert torch.equal(
        more.state_dict()["readout.last.weight"][:3], learner.state_dict()["readout.last.weight"]
    )
    assert more.predict(x, more.learn(x, y, more.initial_state())).shape == (1, 12, 6)


@pytest.mark.parametrize("kind", [k for k in KINDS if k != "online"])
def test_classes_without_demos_cannot_be_answered(kind: str) -> None:
    learner, (x, y) = make(kind), demos(classes=2)
    logits = learner.predict(x, learner.learn(x, y, learner.initial_state()))
    assert torch.isneginf(logits[..., 2:]).all()
    assert torch.isfinite(logits[..., :2]).all()


@pytest.mark.parametrize(
    ("kind", "tolerance"), [(kind, 1e-4) for kind in KINDS] + [("universal, body and all", 5e-3)]
)
def test_states_together_answer_for_all_classes(kind: str, tolerance: float) -> None:
    learner, (x, y) = make(kind.partition(",")[0]), demos(12, classes=6)
    if kind == "universal":  # its body examines every other demo in memory: a little depends on the order
        assert isinstance(learner.readout, UniversalReadout)
        nn.init.constant_(learner.readout.combiner.body.log_rate, -torch.inf)
    if kind == "online":
        state = learner.learn(x, y % 3, learner.initial_state())
        assert learner.predict_together(learner.encode(x), [state, state]).shape == (1, 12, 6)
        return
    whole = learner.learn(x, y, learner.initial_state())
    halves = [
        learner.learn(x[:, y[0] // 3 == half], y[:, y[0] // 3 == half] % 3, learner.initial_state())
        for half in (0, 1)
    ]
    together = learner.predict_together(learner.encode(x), halves)
    torch.testing.assert_close(together, learner.predict(x, whole), rtol=1e-4, atol=tolerance)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("check", CHECKS)
def test_the_estimator_keeps_its_promises(kind: str, check: object) -> None:
    if kind == "knn" and check is check_state_is_constant:
        pytest.skip("k-NN keeps every demo")
    learner = make(kind)
    X = np.random.default_rng(0).random((8, 16, 16))
    check(lambda: ContinualClassifier(learner), X, np.arange(8) % 3)  # type: ignore[operator]


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_one_learns_in_the_estimator(name: str, tmp_path: Path) -> None:
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    clf = ContinualClassifier(name, image_shape=(8, 8)).partial_fit(X[:40], y[:40])
    clf.partial_fit(X[40:120], y[40:120])
    clf.save(tmp_path / "c.safetensors")
    again = ContinualClassifier.load(tmp_path / "c.safetensors")
    assert np.array_equal(again.predict_proba(X[120:150]), clf.predict_proba(X[120:150]))
    assert clf.score(X[120:320], y[120:320]) > 0.3  # chance is 0.1
    assert "demos of 10 classes" in str(clf.report_)


def test_a_classifier_has_as_many_classes_as_come() -> None:
    clf = ContinualClassifier("gemcl")
    X, y = np.random.default_rng(0).random((30, 16, 16)), np.arange(30) % 15
    clf.partial_fit(X[:15], y[:15]).partial_fit(X[15:], y[15:])
    assert clf.predict_proba(X).shape == (30, 15)
    with pytest.raises(InputError, match="10 outputs"):
        ContinualClassifier("oml").fit(X, y)


def test_the_demo_takes_a_meta_learned_baseline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["tour", "--learner", "prototypes", "--runs", "1", "--shots", "2", "--out", str(tmp_path)])
    assert "prototypes" in (tmp_path / "index.html").read_text()


def test_old_names_are_in_the_zoo() -> None:
    assert set(SHIPPED) <= set(zoo.names())


class Frozen(Encoder):
    """A backbone that is found by its name; its weights are in no file."""

    trainable = False

    def __init__(self, offset: float) -> None:
        super().__init__()
        self.n_features = 4
        self.net = nn.Linear(256, 4)
        with torch.no_grad():
            self.net.weight.copy_(torch.linspace(-1, 1, 1024).view(4, 256).sin())
            self.net.bias.fill_(offset)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.net(x.flatten(1))
        return out


@pytest.fixture
def frozen() -> Iterator[dict[str, float]]:
    """Registers a frozen encoder; its bias can be changed, as another release of it would."""
    weights = {"offset": 0.0}
    ENCODERS.register("frozen-test")(lambda config, shape: Frozen(weights["offset"]))
    yield weights
    ENCODERS._known.pop("frozen-test")


@pytest.mark.parametrize("config", [Config, LearnerConfig])
def test_a_frozen_encoder_is_stored_by_reference(
    config: type, tmp_path: Path, frozen: dict[str, float]
) -> None:
    from autocl.files import read_tensors

    learner = Learner(config(**{**SMALL, "encoder": EncoderConfig(kind="frozen-test")}))
    assert not any(p.requires_grad for p in learner.encoder.parameters())
    assert not learner.train().encoder.training
    file = learner.save_pretrained(tmp_path / "l.safetensors")
    assert not [name for name in read_tensors(file, kind="learner")[0] if name.startswith("encoder.")]
    again = Learner.from_pretrained(file)
    assert again.fingerprint() == learner.fingerprint()
    x, _ = demos(2)
    assert torch.equal(again.encode(x), learner.eval().encode(x))
    frozen["offset"] = 1.0
    with pytest.raises(FileError, match="was made with encoder 'frozen-test' of fingerprint"):
        Learner.from_pretrained(file)
