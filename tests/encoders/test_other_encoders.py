import pytest
import torch

from autocl.encoders import EncoderConfig, Identity, Mixer, Patches, ResNet12, build_encoder
from autocl.errors import AutoclError


def count(module):
    return sum(p.numel() for p in module.parameters())


def test_resnet12_has_the_papers_parameters():
    encoder = build_encoder(EncoderConfig(kind="resnet12"), channels=3, height=32, width=32)
    # 2,982,277 of the whole 5-way learner, less body, head and the input projection of 256 + 6 inputs.
    assert count(encoder) == 2_982_277 - 685_568 - 1_285 - (256 + 6 + 1) * 256
    assert encoder.n_features == 256


@pytest.mark.parametrize("kind", ["conv4", "resnet12", "mixer", "patches", "identity"])
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


@pytest.mark.parametrize("kind", ["conv4", "resnet12", "mixer"])
def test_an_image_alone_and_in_a_batch_has_the_same_features(kind):
    torch.manual_seed(0)
    encoder = build_encoder(EncoderConfig(kind=kind, width=8), channels=1, height=19, width=16)
    encoder.double().eval()
    x = torch.randn(4, 1, 19, 16, dtype=torch.float64)
    torch.testing.assert_close(encoder(x)[1:2], encoder(x[1:2]), rtol=0, atol=1e-10)


def test_resnet12_refuses_an_image_too_small():
    with pytest.raises(AutoclError, match="at least 16×16 pixels, got 8×8"):
        ResNet12(channels=3, height=8, width=8)


def test_patches_are_cut_row_by_row_and_padded():
    x = torch.arange(15.0).view(1, 1, 3, 5)
    patches = Patches(channels=1, height=3, width=5, patch=2)(x).view(1, 6, 4)
    assert patches[0, 0].tolist() == [0, 1, 5, 6]
    assert patches[0, 1].tolist() == [2, 3, 7, 8]
    assert patches[0, 5].tolist() == [14, 0, 0, 0]


def test_the_mixer_mixes_patches():
    torch.manual_seed(0)
    encoder = Mixer(channels=1, height=8, width=8, embedding=8, patch=4, depth=1, dropout=0.0)
    x = torch.randn(1, 1, 8, 8)
    moved = torch.cat([x[..., 4:], x[..., :4]], dim=-1)
    assert not torch.allclose(encoder(x), encoder(moved), atol=1e-4)


def test_identity_passes_vectors_through():
    x = torch.randn(3, 7)
    encoder = build_encoder(EncoderConfig(kind="identity"), channels=7, height=1, width=1)
    assert isinstance(encoder, Identity)
    assert encoder.n_features == 7
    assert torch.equal(encoder(x), x)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"kind": "vgg"},
            r"kind='vgg' is not known: choose one of conv4, identity, mixer, patches, resnet12",
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
