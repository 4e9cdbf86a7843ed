"""Whatever form images come in, the learner sees the same."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from autocl import EncoderConfig, Learner, LearnerConfig
from autocl.errors import FileError, InputError
from autocl.estimator.classifier import ContinualClassifier
from autocl.estimator.preprocess import arrays_to_input, is_pictures, pictures_to_input, vectors_to_images
from small_learners import COLOUR, GRAY, RIDGE, small


def gray(n: int = 4, side: int = 20, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (n, side, side), np.uint8)


@settings(max_examples=30, deadline=None)
@given(
    n=st.integers(1, 5),
    height=st.integers(1, 40),
    width=st.integers(1, 40),
    channels=st.sampled_from([None, 1, 3]),
    kind=st.sampled_from(["uint8", "uint16", "int64", "float32", "float64", "bool"]),
    config=st.sampled_from([GRAY, COLOUR]),
)
def test_every_image_is_resized_and_standardised_alone(n, height, width, channels, kind, config):
    rng = np.random.default_rng(height * 100 + width)
    x = rng.integers(0, 256, (n, height, width, channels)[: 4 if channels else 3]).astype(kind)
    x = x * 257 if kind == "uint16" else x
    out = arrays_to_input(x, config)
    assert out.shape == (n, config.channels, 16, 16)
    assert out.dtype == torch.float32
    assert torch.equal(out[:1], arrays_to_input(x[:1], config))  # bit for bit
    for image in out:
        assert abs(float(image.mean())) < 1e-5
        blank = float(image.max() - image.min()) < 1e-3
        assert blank or float(image.std(correction=0)) == pytest.approx(1, abs=1e-4)


def test_scale_and_offset_of_pixels_do_not_matter():
    x = gray()
    wanted = arrays_to_input(x, GRAY)
    assert torch.equal(arrays_to_input(x.astype(np.int32), GRAY), wanted)
    floats = arrays_to_input(x / 255, GRAY)
    for other in (x.astype(float), 0.3 + x / 1000, x * 1e-9, 1e6 + x, x.astype(np.uint16) * 257):
        torch.testing.assert_close(arrays_to_input(other, GRAY), floats, rtol=0, atol=1e-4)
    # Bytes are resized to bytes: half a step of rounding, in units of the image's deviation.
    torch.testing.assert_close(wanted, floats, rtol=0, atol=0.03)


def test_a_blank_image_is_zero_and_not_noise():
    assert arrays_to_input(np.full((1, 9, 9), 77, np.uint8), GRAY).abs().max() < 1e-3


def test_gray_becomes_colour_and_colour_gray():
    x = gray()
    three = np.repeat(x[..., None], 3, axis=-1)
    torch.testing.assert_close(arrays_to_input(three, GRAY), arrays_to_input(x, GRAY), rtol=0, atol=1e-5)
    assert torch.equal(arrays_to_input(x, COLOUR)[:, 2:], arrays_to_input(x, GRAY))


def test_channels_may_come_first():
    x = np.random.default_rng(0).random((2, 16, 18, 3))
    assert torch.equal(arrays_to_input(x.transpose(0, 3, 1, 2), COLOUR), arrays_to_input(x, COLOUR))


def test_files_pillow_images_and_arrays_agree(tmp_path):
    x = np.random.default_rng(0).integers(0, 256, (3, 21, 17, 3), np.uint8)
    pillow = [Image.fromarray(image) for image in x]
    paths = [tmp_path / f"{i}.png" for i in range(3)]
    for image, path in zip(pillow, paths, strict=True):
        image.save(path)
    clf = ContinualClassifier(small(COLOUR)).fit(x, [0, 1, 2])
    wanted = clf.predict_proba(x)
    for same in (pillow, paths, [str(p) for p in paths], list(x), np.array([str(p) for p in paths])):
        assert np.array_equal(clf.predict_proba(same), wanted)
    assert np.array_equal(clf.predict_proba(torch.from_numpy(x)), wanted)


def test_pictures_may_differ_in_size_and_mode():
    pictures = [Image.new("RGBA", (10, 30), "red"), Image.new("L", (9, 9), 50), Image.new("P", (5, 5))]
    assert pictures_to_input(pictures, COLOUR).shape == (3, 3, 16, 16)


def test_vectors_are_images_row_by_row():
    x = gray()
    clf = ContinualClassifier(small()).fit(x, [0, 1, 0, 1])
    flat = ContinualClassifier(small(), image_shape=(20, 20)).fit(x.reshape(4, -1), [0, 1, 0, 1])
    assert np.array_equal(flat.predict_proba(x.reshape(4, -1)), clf.predict_proba(x))
    assert flat.n_features_in_ == 400


def test_shapes_of_vectors():
    x = np.zeros((2, 12))
    assert vectors_to_images(x, (3, 4)).shape == (2, 3, 4)
    assert vectors_to_images(x, "pad").shape == (2, 4, 4)
    assert vectors_to_images(np.zeros((2, 1)), "pad").shape == (2, 1, 1)
    with pytest.raises(InputError, match="image_shape"):
        vectors_to_images(x, (5, 5))
    with pytest.raises(InputError, match=r"made for images.*image_shape=\(height, width\)"):
        vectors_to_images(np.zeros((2, 13)), None)


def test_ready_made_features_pass_an_identity_encoder_untouched():
    config = LearnerConfig(
        n_classes=3, channels=6, height=1, width=1, encoder=EncoderConfig(kind="identity"), model_width=16,
        heads=2,
    )  # fmt: skip
    learner = Learner(config).eval()
    x = np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32)
    clf = ContinualClassifier(learner).fit(x, [0, 1, 2, 0])
    state = learner.learn(torch.from_numpy(x)[None, :, :, None, None], torch.tensor([[0, 1, 2, 0]]),
                          learner.initial_state())  # fmt: skip
    for name, t in clf.state_.tensors.items():
        torch.testing.assert_close(t, state.tensors[name], rtol=1e-4, atol=1e-5)


def test_files_that_are_no_images_are_named(tmp_path):
    bad = tmp_path / "bad.png"
    bad.write_bytes(b"not a picture")
    with pytest.raises(FileError, match=r"image 1: .*bad\.png: not an image"):
        pictures_to_input([gray()[0], bad], GRAY)
    with pytest.raises(InputError, match="image 1 is a int"):
        pictures_to_input([gray()[0], 3], GRAY)


def test_what_counts_as_a_list_of_pictures():
    assert is_pictures(["a.png"])
    assert is_pictures([gray()[0]])
    assert not is_pictures([[0.0, 1.0]])
    assert not is_pictures(gray())
    assert not is_pictures([])


X = np.random.default_rng(0).integers(0, 256, (12, 16, 16), np.uint8)
Y = [f"class {i % 3}" for i in range(12)]


def test_encoded_images_give_the_same_bits_in_every_method():
    learner = small(RIDGE)
    plain, once = ContinualClassifier(learner), ContinualClassifier(learner)
    seen = once.encode(list(X))
    plain.partial_fit(list(X[:7]), Y[:7])
    for i in range(7):  # one by one, of a batch that was encoded together
        once.partial_fit(seen[i : i + 1], Y[i : i + 1])
    assert once.state_ == plain.state_
    for method in ("predict_proba", "decision_function", "novelty", "predict"):
        assert np.array_equal(getattr(once, method)(seen), getattr(plain, method)(list(X))), method


@pytest.mark.parametrize("n", [1, 2, 3, 17])
def test_novelty_does_not_depend_on_the_batch(n):
    rng = np.random.default_rng(1)
    known, asked = rng.normal(size=(40, 24)), rng.normal(size=(20, 24))
    clf = ContinualClassifier("vectors").fit(known, np.arange(40) % 4)
    parts = [clf.novelty(asked[i : i + n]) for i in range(0, 20, n)]
    assert np.array_equal(np.concatenate(parts), clf.novelty(asked))


def test_classifiers_that_start_from_encoded_images_share_the_weights():
    learner = small(RIDGE)
    seen = ContinualClassifier(learner).encode(list(X))
    first, second = ContinualClassifier(learner), ContinualClassifier(learner)
    first.partial_fit(seen[:3], Y[:3])
    second.partial_fit(seen[3:6], Y[3:6])
    assert first._learner is second._learner is seen.learner
    assert len(seen[2:5]) == 3


def test_encoded_images_of_another_learner_are_refused():
    seen = ContinualClassifier(small(RIDGE)).encode(list(X))
    other = small(RIDGE, seed=1)
    with pytest.raises(InputError, match="encode them with"):
        ContinualClassifier(other).partial_fit(seen, Y)
    fitted = ContinualClassifier(other).partial_fit(list(X), Y)
    with pytest.raises(InputError, match="other weights"):
        fitted.predict(seen)
    assert fitted.n_seen_ == 12
