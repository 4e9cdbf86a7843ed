"""The world table from features to verdict, on clusters, and from the command line, on drawn glyphs."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tools.results_table import comparable

from autocl.baselines.embedding import measuring
from autocl.cli.main import run_command
from autocl.data.imageset import FeatureSet
from autocl.encoders import EncoderConfig
from autocl.encoders.backbones import callable_backbone
from autocl.errors import FileError, InputError
from autocl.evaluation.world import sets
from autocl.evaluation.world.contestants import Contestant, LearnerContestant, without_body
from autocl.evaluation.world.measure import (
    Measured,
    calibration_error,
    measure_set,
    measure_world,
    read_times,
    read_world,
    save_times,
)
from autocl.evaluation.world.rivals import RIVALS, Rival
from autocl.evaluation.world.sets import (
    backbone_eyes,
    learner_eyes,
    mapped_eyes,
    world_features,
)
from autocl.evaluation.world.streams import KINDS, cells
from autocl.evaluation.world.table import (
    WITHOUT_BODY,
    cell_markdown,
    markdown,
    rows_of,
    said,
    verdict,
)
from autocl.learner import Learner, LearnerConfig, ReadoutLearner, ReadoutLearnerConfig
from autocl.learner.find import find_learner
from autocl.readouts import ReadoutConfig
from autocl.readouts.body import Evidence
from autocl.readouts.universal import UniversalReadout

F = 12


def clusters(classes: int = 60, images: int = 25, seed: int = 0) -> FeatureSet:
    rng = np.random.default_rng(seed)
    centres = np.repeat(rng.standard_normal((classes, F)), images, axis=0)
    x = centres + 0.5 * rng.standard_normal(centres.shape)
    return FeatureSet(
        name="clusters", split="all", features=x.astype(np.float32),
        starts=np.arange(0, len(x) + 1, images), classes=tuple(f"c{i}" for i in range(classes)),
        hash=f"{seed}" * 64,
    )  # fmt: skip


def vector_learner(kind: str = "lda", unit: bool = True, **options: float) -> ReadoutLearner:
    config = ReadoutLearnerConfig(
        n_classes=2, channels=F, height=1, width=1, readout=ReadoutConfig(kind=kind, **options),
        unit_features=unit, encoder=EncoderConfig(kind="identity"),
    )  # fmt: skip
    return ReadoutLearner(config).eval()


def test_features_of_a_backbone_go_through_the_map_of_a_learner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUTOCL_CACHE", str(tmp_path))
    monkeypatch.setitem(sets.WORLDS, "test", ("glyphs/test",))
    monkeypatch.setitem(sets.OPTIONS, "glyphs/test", {"classes": 4, "examples": 3})

    def pixels(images: list[Image.Image]) -> np.ndarray:
        return np.stack([np.asarray(i.convert("L").resize((3, 4)), np.float32).ravel() for i in images])

    backbone = callable_backbone(pixels, name="pixels-1", image_size=32)
    encoder = EncoderConfig(kind="linear", width=5)
    learner = Learner(ReadoutLearnerConfig(n_classes=2, channels=F, height=1, width=1, encoder=encoder))
    torch.manual_seed(0)
    learner.encoder.map.copy_(torch.randn(F, 5))
    plain = world_features("test", backbone_eyes(backbone))["glyphs/test"]
    made = world_features("test", mapped_eyes(backbone, learner, "mine"))["glyphs/test"]
    expected = learner.encoder(torch.from_numpy(np.asarray(plain.features)))
    np.testing.assert_allclose(made.features, expected.numpy(), rtol=1e-6)
    assert made.hash != plain.hash


def rival(name: str) -> Rival:
    return next(r for r in RIVALS if r.name == name)


def test_a_learner_that_is_lda_gets_what_the_rival_lda_gets_in_every_cell(tmp_path: Path) -> None:
    learner = LearnerContestant("mine", vector_learner("lda", shrinkage=0.5))
    contestants: list[Contestant] = [learner, rival("shrunk LDA")]
    mine, theirs = measure_world("test", "f", {"c": clusters()}, contestants, tmp_path, draws=2)
    assert len(mine.cells) == len(KINDS)
    assert mine.cells.keys() == theirs.cells.keys()
    for kind, values in mine.cells.items():
        assert values == pytest.approx(theirs.cells[kind], abs=0.3), kind
    assert theirs.novelty
    assert min(theirs.novelty) > 80
    assert mine.calibration["class 5x2, 15 shots"] == pytest.approx(
        theirs.calibration["class 5x2, 15 shots"], abs=0.5
    )


def test_a_line_is_read_again_unless_what_decides_it_changed(tmp_path: Path) -> None:
    told: list[str] = []
    contestants: list[Contestant] = [LearnerContestant("mine", vector_learner("means")), rival("1-NN")]

    def run(of_set: FeatureSet, draws: int = 1, again: bool = False) -> int:
        told.clear()
        measure_world(
            "test", "f", {"c": of_set}, contestants, tmp_path, draws=draws, again=again, say=told.append
        )
        return len(told)

    small = clusters(10)
    assert run(small) == 2
    assert run(small) == 0
    assert run(small, again=True) == 1
    assert run(small, draws=2) == 2
    assert run(clusters(10, seed=1), draws=2) == 2
    assert len(read_world(tmp_path)) == 2
    (tmp_path / "world.jsonl").write_text('{"split": "test"}\n')
    with pytest.raises(FileError, match=r"world\.jsonl"):
        read_world(tmp_path)


def test_a_learner_with_few_outputs_learns_fifty_classes_in_several_states() -> None:
    kind = KINDS[-1]
    passages = list(cells({"c": clusters()}, draws=2, kinds=(kind,)))
    fixed = Learner(LearnerConfig(n_classes=20, readout="ridge")).eval()

    wide = [
        p._replace(x=np.pad(p.x, ((0, 0), (0, 116))), queries=np.pad(p.queries, ((0, 0), (0, 116))))
        for p in passages
    ]
    assert fixed.encoder.n_features == F + 116
    scores = LearnerContestant("fixed", fixed).ask(wide, kind.n_labels).scores
    assert scores.shape == (2, len(passages[0].answers), 50)
    right = (scores.argmax(-1) == np.stack([p.answers for p in passages])).mean()
    assert right > 0.5
    assert all(seconds > 0 for seconds in LearnerContestant("fixed", fixed).online(wide[0], kind.n_labels))


def test_the_body_of_a_fast_weight_learner_can_be_taken_off() -> None:
    learner = Learner(LearnerConfig(n_classes=3, readout="ridge")).eval()
    bare = without_body(learner)
    assert bare is not None
    f, y = torch.randn(1, 6, 128), torch.tensor([[0, 1, 2, 0, 1, 2]])
    state = learner.learn_features(f, y, learner.initial_state())
    _, body = bare.answer_features(f, state)
    assert body is not None
    assert not body.any()
    assert not torch.equal(bare.predict_features(f, state), learner.predict_features(f, state))
    assert without_body(Learner(LearnerConfig(n_classes=3))) is None
    assert without_body(vector_learner("means")) is None


def an_evidence() -> Evidence:
    rows = torch.randn(1, 20, 32)
    return Evidence(rows.mT @ rows, rows[:, :3], torch.ones(1, 3), rows.sum(1), torch.ones(1, 3))


def test_the_body_inside_a_read_out_can_be_taken_off() -> None:
    learner = find_learner("vectors").with_features(F)
    bare = without_body(learner)
    assert isinstance(bare, ReadoutLearner)
    torch.manual_seed(0)
    f, y = torch.randn(1, 60, F), torch.arange(60)[None] % 3
    f += 0.3 * y[..., None]
    with measuring(learner), measuring(bare):
        state = learner.learn_features(f, y, learner.initial_state(1, 3))
        whole, without = learner.predict_features(f, state), bare.predict_features(f, state)
    assert not torch.allclose(whole, without, atol=1e-3)
    assert torch.isfinite(without).all()
    assert isinstance(bare.readout, UniversalReadout)
    assert not any(w.any() for w in bare.readout.combiner.body(an_evidence()))
    assert bare.fingerprint() != learner.fingerprint()


def test_calibration_error_is_the_distance_between_confidence_and_accuracy() -> None:
    confident = np.tile([10.0, 0.0], (100, 1))
    assert calibration_error(confident, np.zeros(100, np.int64)) < 1e-3
    assert calibration_error(confident, np.arange(100) % 2) == pytest.approx(0.5, abs=1e-3)
    share = np.log(np.tile([0.75, 0.25], (100, 1)))
    assert calibration_error(share, (np.arange(100) % 4 == 0).astype(np.int64)) == pytest.approx(0, abs=1e-9)


def measured(entry: str, cells_of: dict[str, tuple[float, ...]], constant: bool = True) -> Measured:
    return Measured(
        split="test", features="f", entry=entry, set="s", identity={}, constant=constant, cells=cells_of,
        state_bytes=4,
    )  # fmt: skip


def test_the_verdict_is_about_the_best_rival_of_each_cell_and_the_best_in_the_mean() -> None:
    a, b, other = "class 5x2, 1 shot", "domain 5x2, 15 shots", "class 5x2, wrong labels"
    rows = rows_of(
        [
            measured("mine", {a: (50.0, 52.0), b: (80.0, 80.0), other: (60.0, 60.0)}),
            measured(WITHOUT_BODY.format("mine"), {a: (49.0, 49.0), b: (81.0, 81.0), other: (60.0, 60.0)}),
            measured("class means", {a: (52.5, 52.5), b: (70.0, 70.0), other: (59.0, 59.0)}),
            measured("ridge 0.3", {a: (40.0, 40.0), b: (80.5, 80.5), other: (61.0, 61.0)}),
            measured("SVM", {a: (60.0, 60.0), b: (90.0, 90.0), other: (70.0, 70.0)}, constant=False),
            measured("mean per task and label", {a: (9.0, 9.0), b: (9.0, 9.0), other: (9.0, 9.0)}, False),
        ]
    )
    assert rows[0].entry == "SVM"
    assert rows[0].rank == 1
    v = verdict(rows, "mine", [r.name for r in RIVALS])
    assert v.differences == {("s", a): -1.5, ("s", b): -0.5, ("s", other): -1.0}
    assert (v.close, v.ahead, v.worst) == (2, 0, (("s", a), -1.5))
    assert next(iter(v.leads)) == "SVM"
    assert v.leads["SVM"] == pytest.approx(191 / 3 - 220 / 3)
    assert v.body == {"all": pytest.approx(1 / 3), "1 shot": 2.0, "15 shots": -1.0, "other": 0.0}
    assert v.worst_body == (("s", b), -1.0)
    mine = next(row for row in rows if row.entry == "mine")
    assert (mine.group("class"), mine.group("domain"), mine.group("5 shots")) == (55.5, 80.0, None)
    text = " ".join(said(v, {"mine": {"demo": 0.002, "query": 0.001}}))
    for part in (
        "in 2 of 3 cells",
        "-9.7 in the mean",
        "SVM",
        "1 shot +2.0",
        "2.0 ms a demo",
        "told the bound",
    ):
        assert part in text, part
    assert "| SVM* |" in markdown(rows, {})
    assert "**60.0 ± 0.0**" in cell_markdown(rows)


def test_lines_of_an_older_encoder_or_of_other_draws_are_not_compared() -> None:
    kind = {"class 5x2, 1 shot": (1.0, 2.0)}

    def line(entry: str, set_name: str, data: str, draws: int = 2) -> Measured:
        return replace(measured(entry, kind), set=set_name, identity={"data": data, "draws": draws})

    lines = [
        line("class means", "a", "new"), line("class means", "b", "new"),
        line("mine", "a", "new"), line("mine", "b", "new"),
        line("old", "a", "old"), line("old", "b", "old"),
        line("half", "a", "new"), line("half", "b", "new", draws=1),
    ]  # fmt: skip
    assert {m.entry for m in comparable(lines, ["class means"])} == {"class means", "mine"}


def test_ranks_are_shared_by_equals() -> None:
    a = "class 5x2, 1 shot"
    rows = rows_of(
        [measured(name, {a: (value,) * 2}) for name, value in (("x", 5.0), ("y", 5.0), ("z", 1.0))]
    )
    assert [row.rank for row in rows] == [1.5, 1.5, 3.0]


def test_times_are_found_by_world_and_features(tmp_path: Path) -> None:
    save_times(tmp_path, "test", "lite0", {"a on b": {"stream": 0.5, "demo": 0.25}})
    save_times(tmp_path, "validation", "lite0", {"a on b": {"stream": 7.0}})
    assert read_times(tmp_path, "test", "lite0") == {"a on b": {"stream": 0.5, "demo": 0.25}}
    assert read_times(tmp_path, "test", "lite2") == {}


def test_a_set_without_enough_images_has_no_cells() -> None:
    found = measure_set(rival("1-NN"), "c", clusters(4, 3), 1, split="test", features="f", identity={})
    assert not found.cells
    assert found.novelty == ()


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A world of one small set of drawn glyphs, and one that is not on this machine."""
    monkeypatch.setenv("AUTOCL_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sets.WORLDS, "test", ("glyphs/test", "nowhere"))
    monkeypatch.setitem(sets.OPTIONS, "glyphs/test", {"classes": 12, "examples": 21, "seed": 3})


@pytest.mark.usefixtures("drawn")
def test_features_are_those_of_the_learner() -> None:
    learner = Learner(LearnerConfig(n_classes=10)).eval()
    told: list[str] = []
    found = world_features("test", learner_eyes(learner, "mine"), say=told.append)
    (glyphs,) = found.values()
    images = sets.load("glyphs", "test", classes=12, examples=21, seed=3)
    with torch.no_grad():
        expected = learner.encode(images.take(torch.arange(30), channels=3))
    assert np.allclose(glyphs.features[:30], expected.numpy(), atol=1e-4)
    assert len(told) == 1
    assert "without nowhere" in told[0]


@pytest.mark.usefixtures("drawn")
def test_from_the_command_line_to_a_table_a_picture_and_lines(capsys: pytest.CaptureFixture[str]) -> None:
    Learner(LearnerConfig(n_classes=10, readout="ridge")).save_pretrained("mine.safetensors")
    run_command("bench", ["world", "--learner", "mine.safetensors", "--runs", "2", "--out", "r"])
    printed = capsys.readouterr().out
    for part in (
        "only reports",
        "mine without body",
        "shrunk LDA",
        "logistic regression*",
        "cells, level or",
    ):
        assert part in printed, part
    assert Path("r/world/test-mine.md").is_file()
    assert Path("r/world/test-mine-mine.png").stat().st_size > 10_000
    lines = read_world(Path("r"))
    assert {m.entry for m in lines} == {"mine", "mine without body", *(r.name for r in RIVALS)}
    assert {m.set for m in lines} == {"glyphs/test"}


@pytest.mark.usefixtures("drawn")
@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--learner", "vectors"], "--embedding everyday"),
        (["--learner", "everyday", "--backbone", "lite0"], "encoder of its own"),
        (["--learner", "vectors", "--embedding", "vectors"], "no encoder"),
        (["--runs", "0"], "at least 1"),
    ],
)
def test_what_cannot_be_measured_is_said(args: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        run_command("bench", ["world", *args])
