import pytest
import torch

from autocl.encoders import Conv4, EncoderConfig, build_encoder
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


def test_an_images_features_do_not_depend_on_its_batch():
    encoder = Conv4(channels=1, height=16, width=16, filters=8).double().eval()
    x = torch.randn(5, 1, 16, 16, dtype=torch.float64)
    torch.testing.assert_close(encoder(x)[2:3], encoder(x[2:3]), rtol=0, atol=1e-12)
