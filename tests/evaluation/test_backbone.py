"""Entries behind a frozen backbone: features once, the right learners, results told apart."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from known_methods import coded_set
from PIL import Image
from safetensors.torch import save_file

from autocl.baselines.embedding import BackboneEmbedding
from autocl.cli.main import run_command
from autocl.data.features import compute_features
from autocl.data.imageset import some_rows
from autocl.encoders.backbones import Backbone
from autocl.encoders.base import EncoderConfig
from autocl.encoders.vit import ViT, ViTConfig
from autocl.errors import InputError
from autocl.evaluation import bench, protocol
from autocl.evaluation.entry import open_learner
from autocl.evaluation.protocol import Options
from autocl.evaluation.protocols import PROTOCOLS, backbone
from autocl.evaluation.protocols.backbone import backbone_entries, find_backbone_entries
from autocl.learner import Learner
from autocl.learner.config import LearnerConfig, ReadoutLearnerConfig

F = 64
bench_main = partial(run_command, "bench")


class Coded:
    """A backbone that reads the class off the first pixel, and counts the images it is shown."""

    def __init__(self, name: str = "coded") -> None:
        self.seen = 0
        self.backbone = Backbone(
            name=name, fingerprint=f"{name:<16}", n_features=F, image_size=8, run=self.run
        )

    def run(self, images: list[Image.Image]) -> np.ndarray:
        self.seen += len(images)
        classes = [np.asarray(image)[0, 0, 0] for image in images]
        return np.eye(F, dtype=np.float32)[np.asarray(classes) % F]


@pytest.fixture
def coded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Coded:
    monkeypatch.setenv("AUTOCL_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    network = Coded()
    monkeypatch.setattr(backbone, "get_backbone", lambda name: network.backbone)
    monkeypatch.setattr(protocol, "load", lambda name, split, **_: coded_set(name, split))
    return network


def test_embedding__rows__are_computed_once_and_found_again_by_another(coded: Coded) -> None:
    images = coded_set("mnist", "test")
    embedding = BackboneEmbedding(coded.backbone)
    rows = torch.tensor([[3, 70], [70, 5]])
    expected = torch.eye(F)[torch.tensor([[0, 2], [2, 0]])]
    assert torch.equal(embedding.take(images, rows), expected)
    assert coded.seen == 3
    embedding.take(images, rows)
    assert torch.equal(BackboneEmbedding(coded.backbone).take(images, rows), expected)
    assert coded.seen == 3, "the second embedding found them on the disk"
    compute_features(images, coded.backbone)
    seen = coded.seen
    BackboneEmbedding(coded.backbone).take(images, torch.arange(len(images.images)))
    assert coded.seen == seen, "the whole set was there"


def mapped_learner(n_features: int = F) -> Learner:
    encoder = EncoderConfig(kind="linear", width=5)
    config = ReadoutLearnerConfig(n_classes=2, channels=n_features, height=1, width=1, encoder=encoder)
    torch.manual_seed(1)
    learner = Learner(config)
    learner.encoder.map.copy_(torch.randn(n_features, 5))
    return learner.eval()


def test_a_learner_with_a_map__and_statistics_behind_its_name__get_the_same_features(
    coded: Coded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner = mapped_learner()
    path = learner.save_pretrained(tmp_path / "mapped.safetensors", meta={"backbone": "coded"})
    monkeypatch.setattr(backbone.zoo, "names", lambda: ["mapped"])
    monkeypatch.setattr(backbone, "open_learner", lambda name: open_learner(path))
    images, rows = coded_set("mnist", "test"), torch.tensor([3, 70])
    expected = learner.encoder(torch.eye(F)[torch.tensor([0, 2])])
    named = backbone.embedding_of("mapped")
    torch.testing.assert_close(named.take(images, rows), expected)
    for called in ("coded", "mapped"):
        (entry,) = backbone_entries([called], learners=["mapped"])
        torch.testing.assert_close(entry.method.features.take(images, rows), expected)
        assert entry.name == f"mapped (features of {called})"
    assert named.fingerprint() != BackboneEmbedding(coded.backbone).fingerprint()


def test_some_rows__keep_classes_and_order_and_have_a_hash_of_their_own() -> None:
    images = coded_set("mnist", "test", classes=4, per_class=3)
    rows = np.array([1, 2, 9])
    few = some_rows(images, rows)
    assert few.counts.tolist() == [2, 0, 0, 1]
    assert few.labels.tolist() == [0, 0, 3]
    assert few.images[:, 0, 0, 0].tolist() == [0, 0, 3]
    assert images.order is not None
    assert few.order is not None
    assert few.order.tolist() == images.order[rows].tolist()
    assert len({images.hash, few.hash, some_rows(images, np.array([0, 2, 9])).hash}) == 3


@pytest.mark.parametrize("table", ["backbone", "split-cifar100"])
def test_statistics__features_that_tell_the_class__are_right_everywhere(
    table: str, coded: Coded, tmp_path: Path
) -> None:
    entries = backbone_entries(["coded"], methods={"nearest-mean": {}, "shrunk-lda": {}, "ridge": {}})
    assert [e.name for e in entries] == [
        f"{n} (features of coded)" for n in ("nearest-mean", "shrunk-lda", "ridge")
    ]
    for entry in entries:
        for result in bench.run(PROTOCOLS[table], entry, Options(runs=1), tmp_path / "r"):
            # 64 features tell apart 64 of the 100 classes of the long stream.
            least = 50.0 if table == "split-cifar100" else 99.9
            assert not result.unsupported
            if result.setting == "5-datasets":
                continue  # class 0 of all five has one code here
            assert all(value > least for values in result.cells.values() for value in values), result.cells
            if table == "split-cifar100":
                assert result.cost["examples"] == 100 * 32, "every image is shown once"


def test_learners__must_read_vectors_of_the_backbone(coded: Coded, tmp_path: Path) -> None:
    Learner(LearnerConfig()).save_pretrained(tmp_path / "images.safetensors")
    with pytest.raises(InputError, match="reads images, not features"):
        backbone_entries(["coded"], learners=[str(tmp_path / "images.safetensors")])
    config = LearnerConfig(
        n_classes=10, channels=F, height=1, width=1, encoder=EncoderConfig(kind="identity"),
        model_width=16, heads=2, depth=1,
    )  # fmt: skip
    torch.manual_seed(0)
    for name, made in (("mine", "coded"), ("other", "lite2")):
        Learner(config).save_pretrained(tmp_path / f"{name}.safetensors", meta={"backbone": made})
    (entry,) = backbone_entries(["coded"], learners=[str(tmp_path / "mine.safetensors")])
    assert entry.name == "mine (features of coded)"
    assert entry.trained.backbone == "coded"
    results = bench.run(PROTOCOLS["backbone"], entry, Options(quick=True, runs=1), tmp_path / "r")
    assert all(len(values) == 1 for r in results for values in r.cells.values())
    with pytest.raises(InputError, match="other was meta-trained on lite2, not on coded"):
        backbone_entries(["coded"], learners=[str(tmp_path / "other.safetensors")])


def test_learner_of_vectors__any_backbone__fits(coded: Coded, tmp_path: Path) -> None:
    (entry,) = backbone_entries(["coded"], learners=["vectors"])
    (first, *_) = bench.run(PROTOCOLS["backbone"], entry, Options(quick=True, runs=1), tmp_path / "r")
    assert first.cells["Split-CIFAR-100"] == (100.0,)


def test_command__table_and_references_are_printed(coded: Coded, capsys: pytest.CaptureFixture[str]) -> None:
    bench_main(["backbone", "--backbone", "coded", "--method", "nearest-mean", "--quick", "--out", "r"])
    printed = " ".join(capsys.readouterr().out.split())
    assert "nearest-mean (features of coded)" in printed
    assert "DualPrompt 86.5 and 88.1" in printed
    assert Path("r/backbone.jsonl").read_text().count('"nearest-mean') >= 12


def test_prompts__vit_file__are_measured_inside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOCL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(protocol, "load", lambda name, split, **_: coded_set(name, split))
    torch.manual_seed(0)
    file = tmp_path / "tiny.safetensors"
    save_file(ViT(ViTConfig(image_size=8, patch=4, width=64, depth=5, heads=1)).state_dict(), file)
    (entry,) = backbone_entries([f"vit:{file}"], methods={"dualprompt": {"epochs": 1}})
    assert entry.name == "dualprompt (features of vit:tiny.safetensors)"
    (first, *_) = bench.run(
        PROTOCOLS["backbone"], entry, Options(quick=True, runs=1, queries=4), tmp_path / "r"
    )
    assert first.cost["gradient_steps"] == 5 * 4  # tasks of 30 demos in batches of 8
    assert any("inside a ViT of 5 layers, width 64" in note for note in first.notes)
    monkeypatch.setattr(backbone, "get_backbone", lambda name: Coded().backbone)
    with pytest.raises(InputError, match="l2p works inside a vision transformer, not on lite2"):
        backbone_entries(["lite2"], methods={"l2p": {}})


def test_command__no_names__zoo_and_statistics_of_the_table(coded: Coded) -> None:
    long = [
        e.name.split(" (")[0] for e in find_backbone_entries(PROTOCOLS["split-cifar100"], ["coded"], (), ())
    ]
    assert "vectors" in long
    assert set(PROTOCOLS["split-cifar100"].statistics) <= set(long)
    assert "knn" not in long
    named = find_backbone_entries(PROTOCOLS["split-cifar100"], ["coded"], (), ["ranpac"])
    assert "10,000 random features" in named[0].method.deviation_note()
    every = find_backbone_entries(PROTOCOLS["backbone"], ["coded"], (), ["all"])
    assert [e.trained.recipe for e in every] == list(PROTOCOLS["backbone"].statistics)


def test_command__a_method_with_a_size__has_it_and_says_so(coded: Coded) -> None:
    table = PROTOCOLS["split-cifar100"]
    (entry,) = find_backbone_entries(table, ["coded"], (), ["ranpac@37"])
    assert entry.name == "ranpac@37 (features of coded)"
    assert entry.method.settings()["units"] == 37
    for wrong in ("ridge@3", "ranpac@", "ranpac@many"):
        with pytest.raises(InputError, match=f"no method '{wrong}': only ranpac@NUMBER takes a size"):
            find_backbone_entries(table, ["coded"], (), [wrong])


def test_no_backbone_installed__is_said_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Backbone:
        raise InputError(f"{name} is not here")

    monkeypatch.setattr(backbone, "get_backbone", missing)
    with pytest.raises(
        InputError, match="without lite0: lite0 is not here; without lite2: lite2 is not here"
    ):
        backbone_entries(methods={"ridge": {}})
