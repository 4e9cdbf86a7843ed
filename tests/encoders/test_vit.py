"""The vision transformer against a transcription of its equations, with and without prefixes."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from tools import pretrain_vit
from torch import Tensor

from autocl.encoders.backbones import get_backbone
from autocl.encoders.vit import ViT, ViTConfig
from autocl.errors import FileError, InputError

TINY = ViTConfig(image_size=12, patch=4, width=16, depth=3, heads=2)


@pytest.fixture
def vit() -> ViT:
    torch.manual_seed(0)
    return ViT(TINY).double().eval()


def norm(x: Tensor, W: dict[str, Tensor], name: str) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    scaled = centred / (centred.square().mean(-1, keepdim=True) + 1e-6).sqrt()
    return scaled * W[f"{name}.weight"] + W[f"{name}.bias"]


def naive_block(
    h: Tensor, W: dict[str, Tensor], at: str, heads: int, prefix: tuple[Tensor, Tensor]
) -> Tensor:
    """One image's tokens h [T, D] through a layer, head by head; prefix: rows before keys and values."""
    D = h.shape[1]
    x = norm(h, W, f"{at}.norm1")
    qkv, bias = W[f"{at}.attn.qkv.weight"], W[f"{at}.attn.qkv.bias"]
    q = x @ qkv[:D].T + bias[:D]
    k = torch.cat([prefix[0], x]) @ qkv[D : 2 * D].T + bias[D : 2 * D]
    v = torch.cat([prefix[1], x]) @ qkv[2 * D :].T + bias[2 * D :]
    out = []
    for a in range(0, D, D // heads):
        part = slice(a, a + D // heads)
        scores = q[:, part] @ k[:, part].T / math.sqrt(D // heads)
        out.append(scores.softmax(-1) @ v[:, part])
    h = h + torch.cat(out, -1) @ W[f"{at}.attn.proj.weight"].T + W[f"{at}.attn.proj.bias"]
    x = norm(h, W, f"{at}.norm2") @ W[f"{at}.mlp.fc1.weight"].T + W[f"{at}.mlp.fc1.bias"]
    x = x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))
    return h + x @ W[f"{at}.mlp.fc2.weight"].T + W[f"{at}.mlp.fc2.bias"]


def naive_tokens(image: Tensor, W: dict[str, Tensor], patch: int) -> Tensor:
    rows = []
    for top in range(0, image.shape[1], patch):
        for left in range(0, image.shape[2], patch):
            pixels = image[:, top : top + patch, left : left + patch].flatten()
            rows.append(W["patch_embed.proj.weight"].flatten(1) @ pixels + W["patch_embed.proj.bias"])
    return torch.stack([W["cls_token"][0, 0], *rows]) + W["pos_embed"][0]


def naive_run(
    h: Tensor, W: dict[str, Tensor], heads: int, prefixes: dict[int, tuple[Tensor, Tensor]]
) -> Tensor:
    for layer in range(TINY.depth):
        nothing = h.new_zeros(0, h.shape[1])
        h = naive_block(h, W, f"blocks.{layer}", heads, prefixes.get(layer, (nothing, nothing)))
    return norm(h, W, "norm")


def test_vit__image__equals_the_equations(vit: ViT) -> None:
    W = dict(vit.state_dict())
    images = torch.randn(2, 3, 12, 12, dtype=torch.float64)
    expected = [naive_run(naive_tokens(x, W, TINY.patch), W, TINY.heads, {})[0] for x in images]
    torch.testing.assert_close(vit(images), torch.stack(expected))


def test_vit__prefixes_of_two_layers__equal_the_equations(vit: ViT) -> None:
    W = dict(vit.state_dict())
    images = torch.randn(2, 3, 12, 12, dtype=torch.float64)
    prefixes = {
        layer: (torch.randn(2, L, 16, dtype=torch.float64), torch.randn(2, L, 16, dtype=torch.float64))
        for layer, L in ((0, 1), (2, 3))
    }
    expected = [
        naive_run(
            naive_tokens(x, W, TINY.patch), W, TINY.heads, {n: (k[i], v[i]) for n, (k, v) in prefixes.items()}
        )
        for i, x in enumerate(images)
    ]
    torch.testing.assert_close(vit.run(vit.tokens(images), prefixes), torch.stack(expected))


def test_from_timm__state_dict_with_a_classifier__gives_the_same_network(vit: ViT) -> None:
    weights = {**vit.float().state_dict(), "head.weight": torch.zeros(5, 16), "head.bias": torch.zeros(5)}
    again = ViT.from_timm(weights, heads=2)
    images = torch.randn(1, 3, 12, 12)
    assert again.config == TINY
    assert torch.equal(again.eval()(images), vit(images))


def test_from_timm__something_else__is_refused(vit: ViT) -> None:
    with pytest.raises(FileError, match="not a state dict of timm's VisionTransformer"):
        ViT.from_timm({"conv.weight": torch.zeros(1)})
    with pytest.raises(FileError, match=r"not of a plain ViT of timm: .*ls1"):
        ViT.from_timm({**vit.state_dict(), "blocks.0.ls1.gamma": torch.ones(16)}, heads=2)
    with pytest.raises(InputError, match="image_size"):
        ViTConfig(image_size=30, patch=8)


def test_vit_file__as_a_backbone__gives_the_class_token_of_scaled_pixels(tmp_path) -> None:
    torch.manual_seed(1)
    vit = ViT(ViTConfig(image_size=32, patch=8, width=64, depth=1, heads=1)).eval()
    file = tmp_path / "small.safetensors"
    save_file(vit.state_dict(), file)
    backbone = get_backbone(f"vit:{file}")
    pixels = np.random.default_rng(0).integers(0, 256, (32, 32, 3), dtype=np.uint8)
    with torch.no_grad():
        expected = vit((torch.from_numpy(pixels).permute(2, 0, 1)[None].float() - 127.5) / 127.5)
    np.testing.assert_allclose(backbone([Image.fromarray(pixels)]), expected.numpy(), atol=1e-5)
    with pytest.raises(FileError, match="cannot be read as safetensors"):
        get_backbone(f"vit:{tmp_path / 'none.safetensors'}")


def test_pretrain_vit__saved_network__is_read_as_a_backbone(tmp_path: Path) -> None:
    torch.manual_seed(0)
    vit = ViT(ViTConfig(image_size=12, patch=4, width=64, depth=2, heads=1)).eval()
    pretrain_vit.save(vit, tmp_path / "vit.safetensors")
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 256, (12, 12, 3), np.uint8))
    pixels = torch.from_numpy(np.array(picture)).permute(2, 0, 1).float().sub(127.5).div(127.5)
    backbone = get_backbone(f"vit:{tmp_path / 'vit.safetensors'}")
    expected = vit(pixels[None]).detach().numpy()
    assert np.abs(backbone([picture]) - expected).max() < 5e-3  # weights are kept in half precision
