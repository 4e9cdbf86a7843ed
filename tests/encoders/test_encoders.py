"""Encoders: sizes, gradients, and an image's features whatever else is in its batch."""

import pytest
import torch

from autocl.encoders import Conv4, EncoderConfig, Identity, Patches, build_encoder
from autocl.errors import AutoclError


def count(module):
    return sum(p.numel() for p in module.parameters())


def test_the_papers_encoder_has_its_parameters_and_features():
    encoder = build_encoder(EncoderConfig(), channels=3, height=32, width=32)
    assert count(encoder) == 28_896
    assert encoder.n_features == 128
    assert encoder(torch.randn(2, 3, 32, 32)).shape == (2, 128)


@pytest.mark.parametrize(("height", "width"), [(16, 16), (28, 28), (33, 47), (84, 84)])
def test_any_size_gives_n_features(height, width):
    encoder = build_encoder(EncoderConfig(width=4), channels=1, height=height, width=width)
    assert encoder(torch.randn(2, 1, height, width)).shape == (2, encoder.n_features)


def test_an_image_too_small_is_refused_with_the_reason():
    with pytest.raises(AutoclError, match=r"at least 16×16 pixels, got 15×40"):
        Conv4(channels=1, height=15, width=40)


@pytest.mark.parametrize("kind", ["conv4", "patches", "identity"])
@pytest.mark.parametrize(("height", "width"), [(16, 16), (21, 35)])
@pytest.mark.parametrize("norm", ["instance", "batch", "none"])
def test_every_encoder_gives_n_features_and_passes_gradients_to_all_parameters(kind, height, width, norm):
    torch.manual_seed(0)
    config = EncoderConfig(kind=kind, width=8, norm=norm, dropout=0.0)
    encoder = build_encoder(config, channels=3, height=height, width=width)
    out = encoder(torch.randn(3, 3, height, width))
    assert out.shape == (3, encoder.n_features)
    if kind in ("patches", "identity"):  # nothing to train
        return
    out.square().sum().backward()
    for name, p in encoder.named_parameters():
        assert p.grad is not None, name
        assert p.grad.isfinite().all(), name


def test_an_image_alone_and_in_a_batch_has_the_same_features():
    torch.manual_seed(0)
    encoder = build_encoder(EncoderConfig(kind="conv4", width=8), channels=1, height=19, width=16)
    encoder.double().eval()
    x = torch.randn(4, 1, 19, 16, dtype=torch.float64)
    torch.testing.assert_close(encoder(x)[1:2], encoder(x[1:2]), rtol=0, atol=1e-10)


def test_patches_are_cut_row_by_row_and_padded():
    x = torch.arange(15.0).view(1, 1, 3, 5)
    patches = Patches(channels=1, height=3, width=5, patch=2)(x).view(1, 6, 4)
    assert patches[0, 0].tolist() == [0, 1, 5, 6]
    assert patches[0, 1].tolist() == [2, 3, 7, 8]
    assert patches[0, 5].tolist() == [14, 0, 0, 0]


def test_identity_passes_vectors_through():
    x = torch.randn(3, 7)
    encoder = build_encoder(EncoderConfig(kind="identity"), channels=7, height=1, width=1)
    assert isinstance(encoder, Identity)
    assert encoder.n_features == 7
    assert torch.equal(encoder(x), x)


def test_linear_maps_unit_vectors_to_unit_vectors_and_stays_as_it_is_in_training():
    config = EncoderConfig(kind="linear", width=4)
    encoder = build_encoder(config, channels=7, height=1, width=1)
    torch.manual_seed(0)
    encoder.map.copy_(torch.randn(7, 4))
    x = torch.randn(3, 7, 1, 1)
    out = encoder(x)
    rows = x[:, :, 0, 0]
    expected = (rows / rows.norm(dim=1, keepdim=True)) @ encoder.map.float()
    torch.testing.assert_close(out, expected / expected.norm(dim=1, keepdim=True))
    torch.testing.assert_close(encoder(1000 * x), out)
    assert not list(encoder.parameters())
    encoder.map.copy_(-encoder.map)
    assert torch.equal(encoder(x), -out), "a map that was changed is converted again"
    with pytest.raises(AutoclError, match="maps vectors, not images of 8×8"):
        build_encoder(config, channels=3, height=8, width=8)


@pytest.mark.parametrize("length", [7, 1280, 3768])
def test_linear_gives_a_vector_the_same_bits_beside_any_others(length):
    encoder = build_encoder(EncoderConfig(kind="linear", width=384), channels=length, height=1, width=1)
    torch.manual_seed(0)
    encoder.map.copy_(torch.randn(length, 384))
    x = torch.randn(513, length)
    whole = encoder(x)
    assert encoder.independent(x)
    for n in (1, 2, 3, 5, 8, 31, 32, 33, 64, 512):
        assert torch.equal(encoder(x[:n]), whole[:n]), n


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"kind": "vgg"},
            r"kind='vgg' is not known: choose one of conv4, identity, linear, patches",
        ),
        ({"norm": "layer"}, "norm='layer' is not known: choose one of instance, batch, none"),
        ({"dropout": 1.0}, r"dropout must be in \[0, 1\), got 1.0"),
        ({"width": 0}, "EncoderConfig.width must be at least 1, got 0"),
        ({"patch": 0}, "EncoderConfig.patch must be at least 1, got 0"),
    ],
)
def test_a_bad_configuration_is_refused_with_the_reason(change, message):
    with pytest.raises(AutoclError, match=message):
        EncoderConfig(**change)
