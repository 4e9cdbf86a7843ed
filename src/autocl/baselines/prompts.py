"""L2P and DualPrompt: prompts learned by gradient descent inside a frozen vision transformer.

Both know an image by q(x), the class token's output of the frozen network, and compare it with keys by cosine
distance γ(a, b) = 1 - cos(a, b). What they learn are prompts, keys and one linear classifier; the network
stays as it was. Settings are the authors' for Split-CIFAR-100, but for passes over a task: ours has 30 demos.

Shape legend: n = images, D = width, N = outputs, L = tokens of a prompt, K = prompts of a pool, T = tasks.
"""

from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autocl.baselines.base import Cost, Diet, Method, StreamInfo, examples_of, register, rows_for
from autocl.config import Amount, Count, Positive, check
from autocl.data.imageset import ImageSet, LabelledSet
from autocl.data.stream import Task
from autocl.encoders.backbones.sources import HALF, read_vit
from autocl.encoders.base import fingerprint_of
from autocl.encoders.vit import Prefix, ViT
from autocl.errors import InputError

ASK_BATCH = 256


def distance(a: Tensor, b: Tensor) -> Tensor:
    """γ of every row of a [n, D] to every row of b [K, D], [n, K]."""
    return 1 - F.normalize(a, dim=-1) @ F.normalize(b, dim=-1).T


class Prompts(nn.Module):
    """Prompts and keys, learned besides the classifier; each call is given the network and never keeps it."""

    @abstractmethod
    def features(self, vit: ViT, images: Tensor, query: Tensor, task: int | None) -> tuple[Tensor, Tensor]:
        """Input of the classifier, [n, D], and distance of each image from the keys it uses, [n].

        Args:
            vit: frozen.
            images: [n, C, S, S].
            query: q(x), [n, D].
            task: which one is being learned; None: at a query, when nobody says.
        """


class L2PPrompts(Prompts):
    """A pool of prompts with keys. An image takes the `top` whose keys are nearest, in front of its tokens.

    The classifier reads the mean of the outputs at the prompts' places (Wang et al. 2022, L2P, Eq. 3–5).

    Args:
        width: D.
        pool: K.
        length: L.
        top: prompts that an image uses.
    """

    def __init__(self, width: int, *, pool: int, length: int, top: int) -> None:
        super().__init__()
        self.top = top
        self.prompt = _drawn(pool, length, width)
        self.key = _drawn(pool, width)

    def features(self, vit: ViT, images: Tensor, query: Tensor, task: int | None) -> tuple[Tensor, Tensor]:
        """Features by the nearest prompts of the pool; tasks play no part in the choice."""
        gamma, chosen = distance(query, self.key).topk(self.top, largest=False)
        prompts = self.prompt[chosen].flatten(1, 2)
        out = vit.run(torch.cat([prompts, vit.tokens(images)], dim=1))
        return out[:, : prompts.shape[1]].mean(1), gamma.sum(1)


class DualPrompts(Prompts):
    """One G-prompt for all tasks in the first layers, one E-prompt with a key for each task in later ones.

    Both are prefixes: L tokens before the inputs to a layer's keys, and L before those to its values. While
    a task is learned its own E-prompt is used, at a query the one whose key is nearest (Wang et al. 2022,
    DualPrompt, Eq. 3, 5, 6). The classifier reads the class token.

    Args:
        width: D.
        tasks: T.
        general: layers of the G-prompt, from 0.
        expert: layers of the E-prompts.
        general_length: L of the G-prompt.
        expert_length: L of an E-prompt.
    """

    def __init__(
        self,
        width: int,
        *,
        tasks: int,
        general: tuple[int, ...],
        expert: tuple[int, ...],
        general_length: int,
        expert_length: int,
    ) -> None:
        super().__init__()
        self.layers = general, expert
        self.general = _drawn(len(general), 2, general_length, width)
        self.expert = _drawn(tasks, len(expert), 2, expert_length, width)
        self.key = _drawn(tasks, width)
        self.learned = 0

    def features(self, vit: ViT, images: Tensor, query: Tensor, task: int | None) -> tuple[Tensor, Tensor]:
        """Features by the G-prompt and the E-prompt of a task."""
        n = len(images)
        if task is None:
            gamma = distance(query, self.key[: max(1, self.learned)])
            chosen = gamma.argmin(1)
        else:
            gamma = distance(query, self.key)
            chosen = torch.full((n,), task)
        prefixes: dict[int, Prefix] = {}
        for layer, prompt in zip(self.layers[0], self.general, strict=True):
            prefixes[layer] = prompt[0].expand(n, -1, -1), prompt[1].expand(n, -1, -1)
        for i, layer in enumerate(self.layers[1]):
            prefixes[layer] = self.expert[chosen, i, 0], self.expert[chosen, i, 1]
        out = vit.run(vit.tokens(images), prefixes)
        return out[:, 0], gamma.gather(1, chosen[:, None])[:, 0]


def _drawn(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(shape).uniform_(-1, 1))


@dataclass(kw_only=True, eq=False)
class PromptMethod(Method):
    """The training loop that both share."""

    side_by_side = 1
    needs = frozenset({"vit"})

    vit: ViT | str | Path | None = None
    """The network, or a safetensors file with timm's names; it must be given."""
    diet: Diet = "demos"
    epochs: Count = 50
    """Passes over a task. The authors make 5 over 5,000 images in batches of 128, 195 steps; 50 over 30 demos
    are 200. Fewer leave the keys, which start at random, where they were. Not tuned."""
    batch: Count = 8
    lr: Positive = 0.005
    match: Amount = 0.5
    """Weight of the distance to the keys in the loss."""

    def __post_init__(self) -> None:
        check(self)
        if self.vit is None:
            raise InputError(
                f"method {self.name!r} works inside a vision transformer: give one (vit=FILE; on the command "
                "line --backbone vit:FILE)"
            )
        self._vit = self.vit if isinstance(self.vit, ViT) else read_vit(self.vit)
        self._vit.eval().requires_grad_(False)

    @abstractmethod
    def prompts(self, width: int, tasks: int) -> Prompts:
        """Fresh ones."""

    def settings(self) -> dict[str, Any]:
        """Settings; the network by its fingerprint."""
        return {**super().settings(), "vit": fingerprint_of(self._vit.state_dict(), str(self._vit.config))}

    def deviation_note(self) -> str:
        """Name of the network that the prompts are inside of."""
        c = self._vit.config
        return (
            f"inside a ViT of {c.depth} layers, width {c.width}, {c.image_size} pixels, {self.epochs} epochs"
        )

    def begin(self, info: StreamInfo) -> None:
        """Draw prompts, keys and classifier."""
        if len(info.seeds) != 1:
            raise InputError(f"{self.name} goes through one stream at a time")
        self._info, self._task, self._steps, self._examples = info, 0, 0, 0
        width = self._vit.config.width
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(info.seeds[0])
            self._prompts = self.prompts(width, info.n_tasks)
            self._head = nn.Linear(width, info.n_outputs)
        self._generator = torch.Generator().manual_seed(info.seeds[0])
        self._seen = torch.zeros(info.n_outputs, dtype=torch.bool)

    def learn(self, task: Task) -> None:
        """Train on the task; outputs of other tasks take no part in its loss."""
        share = examples_of(task, self.diet)
        images, labels = self._pixels(share.images, share.index[0]), share.labels[0]
        absent = torch.ones(self.info.n_outputs, dtype=torch.bool)
        absent[labels] = False
        with torch.no_grad():
            query = torch.cat([self._vit(part) for part in torch.split(images, ASK_BATCH)])
        adam = torch.optim.Adam([*self._prompts.parameters(), *self._head.parameters()], lr=self.lr)
        with torch.enable_grad():
            for _ in range(self.epochs):
                for rows in torch.split(torch.randperm(len(images), generator=self._generator), self.batch):
                    f, gamma = self._prompts.features(self._vit, images[rows], query[rows], self._task)
                    logits = self._head(f).masked_fill(absent, -torch.inf)
                    loss = F.cross_entropy(logits, labels[rows]) + self.match * gamma.mean()
                    adam.zero_grad(set_to_none=True)
                    loss.backward()  # type: ignore[no-untyped-call]
                    adam.step()
                    self._steps += 1
        self._examples += self.epochs * len(images)
        self._seen |= ~absent
        self._task += 1
        if isinstance(self._prompts, DualPrompts):
            self._prompts.learned = self._task

    @torch.no_grad()
    def predict(self, images: LabelledSet, index: Tensor) -> Tensor:
        """Logits [1, Q, N]."""
        parts = []
        for rows in torch.split(rows_for(index, 1)[0], ASK_BATCH):
            x = self._pixels(images, rows)
            f, _ = self._prompts.features(self._vit, x, self._vit(x), None)
            parts.append(self._head(f))
        return torch.cat(parts)[None].masked_fill(~self._seen, -torch.inf)

    def cost(self) -> Cost:
        """Prompts, keys and classifier are carried from task to task."""
        kept = [*self._prompts.parameters(), *self._head.parameters()]
        size = sum(t.numel() * t.element_size() for t in kept)
        return Cost(examples=self._examples, gradient_steps=self._steps, state_bytes=size)

    def _pixels(self, images: LabelledSet, rows: Tensor) -> Tensor:
        """Network input [n, 3, S, S], pixels from -1 to 1."""
        if not isinstance(images, ImageSet):
            raise InputError(f"method {self.name!r} prompts a network that reads images, not vectors")
        x = torch.from_numpy(images.images[rows.numpy()]).float()
        x = x.expand(-1, self._vit.config.channels, -1, -1)
        S = self._vit.config.image_size
        if x.shape[-2:] != (S, S):
            x = F.interpolate(x, (S, S), mode="bicubic", antialias=True).clamp(0, 255)
        return (x - HALF) / HALF


@register
class L2P(PromptMethod):
    """Learning to prompt: a pool of prompts, chosen by key."""

    name = "l2p"

    pool: Count = 10
    length: Count = 5
    top: Count = 5

    def prompts(self, width: int, tasks: int) -> Prompts:
        """A pool."""
        return L2PPrompts(width, pool=self.pool, length=self.length, top=self.top)


@register
class DualPrompt(PromptMethod):
    """DualPrompt: a general prompt and one expert prompt for each task."""

    name = "dualprompt"

    match: Amount = 1.0
    general: tuple[int, ...] = (0, 1)
    expert: tuple[int, ...] = (2, 3, 4)
    general_length: Count = 5
    expert_length: Count = 20

    def prompts(self, width: int, tasks: int) -> Prompts:
        """General ones and one expert for each task."""
        return DualPrompts(
            width, tasks=tasks, general=self.general, expert=self.expert,
            general_length=self.general_length, expert_length=self.expert_length,
        )  # fmt: skip
