"""The self-referential MLP-mixer: seeing, too, is done by weights that rewrite themselves.

The paper's models adapt everything but their vision; a footnote sketches this one, which adapts that as well.
In place of an encoder, every patch of an image gets the label beside its pixels, and self-referential layers
mix patches and channels in turn.

Shape legend: B = streams, T = demos, P = patches, E = channels of a patch, N = classes.
"""

from typing import Literal

import torch
from torch import Tensor, nn

from autocl.errors import InputError
from autocl.layers.base import MIXERS, Dropout, Linear, StackConfig, State, Stateless
from autocl.layers.srwm import SRWMLayer

TOKEN_FACTOR = 2.0
CHANNEL_FACTOR = 0.5


class _Transpose(nn.Module):
    def forward(self, h: torch.Tensor) -> torch.Tensor:
        return h.mT


def _two_layers(width: int, factor: float, dropout: float) -> list[nn.Module]:
    inner = max(1, int(width * factor))
    return [Linear(width, inner), nn.GELU(), Dropout(dropout), Linear(inner, width), Dropout(dropout)]


MAX_PATCHES = 64
"""The size of the largest SRWM head."""


class PatchInput(nn.Linear):
    """Input projection shared by all patches: [pixels of the patch; one-hot label] to E channels.

    It takes what the linear input projection of other learners takes, [features; one-hot label], where the
    features are those of `autocl.encoders.Patches`. Its columns, too, are pixels first, then labels.

    Args:
        n_patches: P.
        patch_features: pixels of one patch, times channels.
        n_labels: length of the one-hot label, N + 1.
        embedding: E.

    Example:
        >>> import torch
        >>> layer = PatchInput(n_patches=4, patch_features=48, n_labels=6, embedding=16)
        >>> layer(torch.zeros(2, 5, 4 * 48 + 6)).shape
        torch.Size([2, 5, 64])
    """

    def __init__(self, *, n_patches: int, patch_features: int, n_labels: int, embedding: int) -> None:
        super().__init__(patch_features + n_labels, embedding)
        self.n_patches = n_patches
        self.patch_features = patch_features

    def forward(self, x: Tensor) -> Tensor:
        """[..., P·patch_features + N + 1] -> [..., P·E]."""
        P, K = self.n_patches, self.patch_features
        pixels, label = x[..., : P * K].reshape(*x.shape[:-1], P, K), x[..., P * K :]
        from_label = nn.functional.linear(label, self.weight[:, K:], self.bias)
        return (pixels @ self.weight[:, :K].T + from_label.unsqueeze(-2)).flatten(-2)


class PatchMixing(nn.Module):
    """A self-referential sublayer along one axis of [P, E], then a mixer's feed-forward along the same axis.

    "tokens": each channel is a stream of its own through the recurrence, with one head of size P.
    "channels": each patch is, with heads of size E / heads. All of them start from the same matrix and then
    diverge; the state holds one matrix for each.

    Args:
        axis: what is mixed.
        n_patches: P, at most 64.
        embedding: E.
        heads: for "channels", a divisor of E.
        dropout: rate on the output of both parts.

    Example:
        >>> import torch
        >>> layer = PatchMixing(axis="tokens", n_patches=4, embedding=6)
        >>> h, state = layer(torch.zeros(2, 5, 24), layer.initial_state(2))
        >>> h.shape, state["W"].shape
        (torch.Size([2, 5, 24]), torch.Size([2, 6, 1, 16, 4]))
    """

    def __init__(
        self,
        *,
        axis: Literal["tokens", "channels"],
        n_patches: int,
        embedding: int,
        heads: int = 1,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        if n_patches > MAX_PATCHES:
            raise InputError(
                f"the self-referential mixer takes at most {MAX_PATCHES} patches of an image, got "
                f"{n_patches}; choose larger patches"
            )
        self.axis = axis
        self.n_patches = n_patches
        self.embedding = embedding
        layers: list[nn.Module] = [nn.LayerNorm(embedding)]
        if axis == "tokens":
            self.srwm = SRWMLayer(width=n_patches, heads=1, dropout=dropout)
            layers += [_Transpose(), *_two_layers(n_patches, TOKEN_FACTOR, dropout), _Transpose()]
        else:
            self.srwm = SRWMLayer(width=embedding, heads=heads, dropout=dropout)
            layers += _two_layers(embedding, CHANNEL_FACTOR, dropout)
        self.feedforward = nn.Sequential(*layers)  # sees one channel of all patches, or all of one patch

    def initial_state(self, batch: int) -> State:
        """The meta-learned matrix, once for each stream and channel (or patch): W [B, E or P, H, R, D]."""
        streams = self.embedding if self.axis == "tokens" else self.n_patches
        W = self.srwm.initial_state(1)["W"]
        return {"W": W.expand(batch, streams, -1, -1, -1)}

    def forward(self, h: Tensor, state: State) -> tuple[Tensor, State]:
        """Run a segment h [B, T, P·E]."""
        y, new = self.srwm(self._to_streams(h), {"W": state["W"].flatten(0, 1)})
        return self._finish(y, len(h)), {"W": new["W"].unflatten(0, (len(h), -1))}

    def read(self, h: Tensor, state: State) -> Tensor:
        """Answer queries h [B, Q, P·E]."""
        y = self.srwm.read(self._to_streams(h), {"W": state["W"].flatten(0, 1)})
        return self._finish(y, len(h))

    def _to_streams(self, h: Tensor) -> Tensor:
        """[B, T, P·E] -> [B·E, T, P] or [B·P, T, E]."""
        x = h.reshape(*h.shape[:-1], self.n_patches, self.embedding)
        x = x.permute(0, 3, 1, 2) if self.axis == "tokens" else x.permute(0, 2, 1, 3)
        return x.flatten(0, 1)

    def _finish(self, y: Tensor, batch: int) -> Tensor:
        """[B·E, T, P] or [B·P, T, E] through the feed-forward -> [B, T, P·E]."""
        x = y.reshape(batch, -1, *y.shape[1:])
        x = x.permute(0, 2, 3, 1) if self.axis == "tokens" else x.permute(0, 2, 1, 3)
        out: Tensor = x + self.feedforward(x)
        return out.flatten(-2)


class PatchMean(Stateless):
    """The mean over patches, [B, T, P·E] to [B, T, E].

    Args:
        n_patches: P.
    """

    def __init__(self, *, n_patches: int) -> None:
        super().__init__()
        self.n_patches = n_patches

    def read(self, h: Tensor, state: State) -> Tensor:
        """Average the patches of each demo or query."""
        return h.reshape(*h.shape[:-1], self.n_patches, -1).mean(-2)


@MIXERS.register("srmixer")
def self_referential_mixer(config: StackConfig) -> nn.ModuleList:
    """The stack behind a `PatchInput`: `depth` pairs of token and channel mixing, the mean, one more SRWM.

    It takes [B, T, P·E] and gives [B, T, E] to the head; E is the width.
    """
    heads, dropout = config.heads, config.dropout
    size = {"n_patches": config.n_patches, "embedding": config.width}
    layers = nn.ModuleList()
    for _ in range(config.depth):
        layers.append(PatchMixing(axis="tokens", **size, dropout=dropout))
        layers.append(PatchMixing(axis="channels", **size, heads=heads, dropout=dropout))
    layers.append(PatchMean(n_patches=config.n_patches))
    layers.append(SRWMLayer(width=config.width, heads=heads, dropout=dropout))
    return layers
