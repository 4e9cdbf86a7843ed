"""ViT: a vision transformer that reads timm's weights and lets prompts in (Dosovitskiy et al. 2021).

Parameters carry timm's names (`blocks.0.attn.qkv.weight`, …), so that the file of any plain ViT of timm loads
without a table of names. Prompts are arguments of the forward pass: tokens in front of the others (`run`), or
prefixes of a layer's keys and values.

Shape legend: n = images, C = channels, S = pixels a side, P = patches, T = tokens, D = width, L = length of a
prompt.
"""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autocl.config import Count, check
from autocl.errors import FileError, InputError

Prefix = tuple[Tensor, Tensor]
"""Tokens before a layer's inputs to keys and to values, each [n, L, D]."""


@dataclass(frozen=True, kw_only=True)
class ViTConfig:
    """The shape of a vision transformer. The defaults are ViT-B/16."""

    image_size: Count = 224
    patch: Count = 16
    width: Count = 768
    depth: Count = 12
    heads: Count = 12
    channels: Count = 3

    def __post_init__(self) -> None:
        check(self)
        if self.image_size % self.patch or self.width % self.heads:
            raise InputError(
                f"a ViT needs image_size ({self.image_size}) divisible by patch ({self.patch}) and width "
                f"({self.width}) divisible by heads ({self.heads})"
            )

    @property
    def patches(self) -> int:
        """P."""
        return (self.image_size // self.patch) ** 2


class Attention(nn.Module):
    """Multi-head self-attention.

    Args:
        width: D.
        heads: how many; each has width D / heads.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, h: Tensor, prefix: Prefix | None = None) -> Tensor:
        """[n, T, D] -> [n, T, D]. Keys and values are also made of the prefix, which asks nothing itself."""
        if prefix is None:
            q, k, v = self.qkv(h).chunk(3, dim=-1)
        else:
            before_k, before_v = prefix
            W, b = self.qkv.weight.chunk(3), self.qkv.bias.chunk(3)
            q = F.linear(h, W[0], b[0])
            k = F.linear(torch.cat([before_k, h], 1), W[1], b[1])
            v = F.linear(torch.cat([before_v, h], 1), W[2], b[2])
        mixed = F.scaled_dot_product_attention(self._split(q), self._split(k), self._split(v))
        out: Tensor = self.proj(mixed.transpose(1, 2).flatten(2))
        return out

    def _split(self, t: Tensor) -> Tensor:
        return t.view(*t.shape[:2], self.heads, -1).transpose(1, 2)


class Block(nn.Module):
    """Attention and a feed-forward network four times as wide, each behind a LayerNorm and around a skip."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width, eps=1e-6)
        self.attn = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width, eps=1e-6)
        fc1, fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.mlp = nn.Sequential(OrderedDict(fc1=fc1, act=nn.GELU(), fc2=fc2))

    def forward(self, h: Tensor, prefix: Prefix | None = None) -> Tensor:
        """[n, T, D] -> [n, T, D]."""
        h = h + self.attn(self.norm1(h), prefix)
        out: Tensor = h + self.mlp(self.norm2(h))
        return out


class ViT(nn.Module):
    """A vision transformer without a classifier.

    Example:
        >>> vit = ViT(ViTConfig(image_size=32, patch=8, width=48, depth=2, heads=3))
        >>> vit(torch.zeros(5, 3, 32, 32)).shape
        torch.Size([5, 48])
    """

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.config = config
        self.cls_token = nn.Parameter(torch.zeros(1, 1, config.width))
        self.pos_embed = nn.Parameter(0.02 * torch.randn(1, 1 + config.patches, config.width))
        proj = nn.Conv2d(config.channels, config.width, config.patch, config.patch)
        self.patch_embed = nn.Sequential(OrderedDict(proj=proj))
        self.blocks = nn.ModuleList(Block(config.width, config.heads) for _ in range(config.depth))
        self.norm = nn.LayerNorm(config.width, eps=1e-6)

    @classmethod
    def from_timm(cls, weights: Mapping[str, Tensor], *, heads: int | None = None) -> "ViT":
        """The network that a state dict of timm describes; its classifier is left out.

        Args:
            weights: of a plain ViT: a class token, no distillation token, no layer scale.
            heads: tensors do not tell; default: heads 64 wide, as in every size of the paper.
        """
        try:
            width, channels, patch, _ = weights["patch_embed.proj.weight"].shape
            places = weights["pos_embed"].shape[1] - 1
        except (KeyError, ValueError, IndexError) as error:
            raise FileError(f"this is not a state dict of timm's VisionTransformer: {error}") from error
        depth = len({name.split(".")[1] for name in weights if name.startswith("blocks.")})
        config = ViTConfig(
            image_size=round(places**0.5) * patch, patch=patch, width=width, depth=depth,
            heads=heads or max(1, width // 64), channels=channels,
        )  # fmt: skip
        vit = cls(config)
        kept = {name: value for name, value in weights.items() if not name.startswith("head.")}
        try:
            vit.load_state_dict(kept)
        except RuntimeError as error:
            reason = " ".join(str(error).split())
            raise FileError(f"these weights are not of a plain ViT of timm: {reason[:300]}") from error
        return vit

    def forward(self, images: Tensor) -> Tensor:
        """The class token's output [n, D] of images [n, C, S, S]: q(x) of the prompt methods."""
        return self.run(self.tokens(images))[:, 0]

    def tokens(self, images: Tensor) -> Tensor:
        """Class token and patches with their places, [n, 1 + P, D]."""
        patches = self.patch_embed(images).flatten(2).mT
        first = self.cls_token.expand(len(patches), -1, -1)
        return torch.cat([first, patches], dim=1) + self.pos_embed

    def run(self, tokens: Tensor, prefixes: Mapping[int, Prefix] | None = None) -> Tensor:
        """All layers and the last norm: tokens [n, T, D] -> [n, T, D].

        Args:
            tokens: from `tokens`, possibly with prompts among them.
            prefixes: of layers, by number from 0.
        """
        for number, block in enumerate(self.blocks):
            tokens = block(tokens, (prefixes or {}).get(number))
        out: Tensor = self.norm(tokens)
        return out
