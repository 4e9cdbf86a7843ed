"""Does a body with fast weights add anything to the universal read-out? `python -m benchmarks.bodies`.

Every variant is trained on the same streams for the same number of steps, with several seeds, and judged on
the same streams of validation sets. "best expert" is the closed form that is best on them, with nothing
learned; "gate" trusts experts by their marks, "reader" also corrects them, "ships" has the body of
`readouts/combiner.py`, whose fast weights are a last layer of the reader. "wide" is the reader
with as many weights as a reader and one of the bodies that follow. These
read the examination as a stream of its own: for every prototype that was left out, what the experts
said of the right class and of its strongest rivals, which was right, and a code of each class; a body
rewrites its fast weights as it reads, and its answer for a candidate is added to the reader's.
"""

import argparse
import time
from functools import partial

import numpy as np
import torch
from tools.train_universal import (
    Table,
    answer,
    changed,
    clusters,
    loss_of,
    pixel_eyes,
    table,
    train,
    worlds,
)
from torch import Tensor, nn
from torch.nn import functional as F

from autocl.encoders.backbones import get_backbone
from autocl.estimator.inputs import PHOTOS
from autocl.evaluation.world.sets import backbone_eyes
from autocl.layers.base import MIXERS, StackConfig
from autocl.readouts.body import Body
from autocl.readouts.combiner import (
    BOUND,
    CANDIDATES,
    LOWEST,
    Combiner,
    Gate,
    Reader,
    Trust,
)
from autocl.readouts.examination import Examination
from autocl.readouts.experts import NAMES
from autocl.readouts.universal import UniversalReadout

WIDTH, HEADS, CODES, RIVALS = 32, 2, 16, 3
WIDE = 85
"""Hidden units of "wide", so that it has as many weights as a reader of 64 with a body."""
BODIES = ("srwm", "delta", "gated delta", "mesa", "attention")
ALL = ("srwm", "delta", "gated delta", "mesa")
"""Layers of the body "all", one kind after the other; without attention, whose state grows."""


class Mesa(nn.Module):
    """Ridge regression inside a layer: learned keys and values, the best linear map between them."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.log_penalty = nn.Parameter(torch.zeros(HEADS))

    def initial_state(self, batch: int) -> dict[str, Tensor]:
        return {}

    def parts(self, h: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = self.qkv(self.norm(h)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        return F.normalize(q, dim=-1), F.normalize(k, dim=-1), v

    def forward(self, h: Tensor, state: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        _, k, v = self.parts(h)
        k = k * (h.abs().sum(-1) > 0)[:, None, :, None]
        ridge = 4 * self.log_penalty.exp()[:, None, None] * torch.eye(k.shape[-1])
        state = {"W": torch.linalg.solve(k.mT @ k + ridge, k.mT @ v)}
        return self.read(h, state), state

    def read(self, h: Tensor, state: dict[str, Tensor]) -> Tensor:
        q, _, _ = self.parts(h)
        out: Tensor = h + self.out((q @ state["W"]).transpose(1, 2).flatten(2))
        return out


class GatedDelta(Mesa):
    """The delta rule with a learned decay of what was written before."""

    def __init__(self) -> None:
        super().__init__()
        self.rates = nn.Linear(WIDTH, 2 * HEADS)
        with torch.no_grad():
            self.rates.bias[HEADS:] = 4.0

    def forward(self, h: Tensor, state: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        _, k, v = self.parts(h)
        write, keep = self.rates(h).sigmoid().transpose(1, 2)[..., None].split(HEADS, 1)
        write = write * (h.abs().sum(-1) > 0)[:, None, :, None]
        W = h.new_zeros(len(h), HEADS, k.shape[-1], v.shape[-1])
        for t in range(h.shape[1]):
            W = keep[:, :, t, :, None] * W
            error = v[:, :, t] - (k[:, :, t, None] @ W)[:, :, 0]
            W = W + (write[:, :, t] * k[:, :, t])[..., None] * error[:, :, None]
        state = {"W": W}
        return self.read(h, state), state


class Feedforward(nn.Module):
    """Pre-norm residual block without a state."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH)
        )

    def initial_state(self, batch: int) -> dict[str, Tensor]:
        return {}

    def forward(self, h: Tensor, state: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        return h + self.net(h), {}

    def read(self, h: Tensor, state: dict[str, Tensor]) -> Tensor:
        out: Tensor = h + self.net(h)
        return out


def layers_of(kind: str) -> nn.ModuleList:
    if kind == "all":
        return nn.ModuleList([layer for one in ALL for layer in layers_of(one)])
    own = {"mesa": Mesa, "gated delta": GatedDelta}
    if kind in own:
        return nn.ModuleList([own[kind](), Feedforward(), own[kind](), Feedforward()])
    return MIXERS.get(kind)(StackConfig(width=WIDTH, heads=HEADS, depth=2, dropout=0.0))


class WithoutBody(Combiner):
    """The combiner without its own body."""

    def judge(self, exam: Examination) -> Trust:
        trust = super().judge(exam)
        return trust._replace(last=torch.zeros_like(trust.last), bias=torch.zeros_like(trust.bias))


class Wide(WithoutBody):
    """The same with more hidden units."""

    def __init__(self) -> None:
        super().__init__(len(NAMES))
        self.gate, self.reader, self.body = Gate(len(NAMES), WIDE), Reader(len(NAMES), WIDE), Body(WIDE)


READERS = {
    "reader": lambda: WithoutBody(len(NAMES)), "ships": lambda: Combiner(len(NAMES)), "wide": Wide,
}  # fmt: skip
"""What is trained and asked as the read-out itself is, by name."""


class WithBody(WithoutBody):
    """The combiner with another body that reads the examination."""

    def __init__(self, kind: str) -> None:
        super().__init__(len(NAMES))
        self.token = nn.Linear(len(NAMES) + 2 + CODES + 2, WIDTH)
        self.layers = layers_of(kind)
        self.out = nn.Linear(WIDTH, 1)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def view(self, scores: Tensor, trust: Trust, chosen: Tensor, codes: Tensor) -> tuple[Tensor, Tensor]:
        """What is said of chosen classes [B, Q, C], with their codes: [B, Q, C, …]; and the base answer."""
        base, said = self.base(scores, trust)
        own = base.gather(-1, chosen).clamp(min=LOWEST)
        said = said.gather(-1, chosen[:, None].expand(-1, said.shape[1], -1, -1)).permute(0, 2, 3, 1)
        code = codes[:, None].expand(-1, chosen.shape[1], -1, -1)
        code = code.gather(2, chosen[..., None].expand(-1, -1, -1, CODES))
        views = [(said.clamp(min=LOWEST) - own[..., None]) / 2, own[..., None] / 4, own.exp()[..., None]]
        return torch.cat([*views, code], -1), own

    def with_body(self, t: Table) -> Tensor:
        trust = self.judge(t.exam)
        logits = self.answer(t.scores, trust)
        exam: Examination = t.exam
        B, N = exam.demos.shape
        codes = torch.sign(torch.randn(B, N, CODES)) / CODES**0.5
        right = F.one_hot(exam.label, N).bool()
        asked = self.base(exam.left_out, trust)[0].masked_fill(right, 1e9).topk(min(RIVALS, N), -1).indices
        seen, own = self.view(exam.left_out, trust, asked, codes)
        target = (asked == exam.label[..., None]).to(own.dtype)
        tokens = torch.cat([seen, target[..., None], (target - own.exp())[..., None]], -1)
        examined = (exam.weight > 0).to(own.dtype)[..., None, None]
        h = (self.token(tokens) * examined).flatten(1, 2)
        candidates = logits.topk(min(CANDIDATES, N), -1).indices
        query, _ = self.view(t.scores, trust, candidates, codes)
        q = self.token(F.pad(query, (0, 2))).flatten(1, 2)
        for layer in self.layers:
            h, state = layer(h, layer.initial_state(B))
            h = h * examined.expand(-1, -1, target.shape[-1], -1).flatten(1, 2)
            q = layer.read(q, state)
        change = BOUND * torch.tanh(self.out(q).view(*candidates.shape) / BOUND)
        return logits.scatter_add(-1, candidates, change)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--streams", type=int, default=1500)
    parser.add_argument("--judged", type=int, default=600)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=["gate", *READERS, *BODIES, "all"])
    args = parser.parse_args()
    torch.set_num_threads(1)
    rng, readout = np.random.default_rng(0), UniversalReadout()
    eyes = [backbone_eyes(get_backbone(PHOTOS[1])), pixel_eyes()]
    practice = [of_set for e in eyes for of_set in worlds("meta-training", e)]
    held_out = [of_set for e in eyes for of_set in worlds("validation", e)]
    change = partial(changed, all_directions=False)
    with torch.no_grad():
        tables = [
            table(readout, clusters(rng), rng)
            if rng.random() < 0.15
            else table(readout, practice[rng.integers(len(practice))], rng, change)
            for _ in range(args.streams)
        ]
        judged = [table(readout, held_out[i % len(held_out)], rng) for i in range(args.judged)]
    alone = [(t.scores.argmax(-1) == t.answers[:, None]).float().mean((0, 2)) for t in judged]
    best = torch.stack(alone).mean(0).max(0)
    print(f"best expert  {100 * float(best.values):.2f} % ({NAMES[int(best.indices)]})", flush=True)
    for kind in args.only:
        found = []
        for seed in range(args.seeds):
            start = time.perf_counter()
            combiner, run = trained(kind, tables, args.steps, seed)
            torch.manual_seed(0)
            with torch.no_grad():
                right = [float((run(t).argmax(-1) == t.answers).float().mean()) for t in judged]
                loss = [float(loss_of(run(t), t.answers)) for t in judged]
            found.append((100 * np.mean(right), np.mean(loss), time.perf_counter() - start))
        mean, deviation = np.mean(found, 0), np.std(found, 0)
        print(
            f"{kind:12s} {mean[0]:.2f} ± {deviation[0]:.2f} %, cross-entropy {mean[1]:.4f} ± "
            f"{deviation[1]:.4f}, {sum(p.numel() for p in combiner.parameters()):,} weights, {mean[2]:.0f} s",
            flush=True,
        )


def trained(kind: str, tables: list[Table], steps: int, seed: int):
    """A combiner of this kind, and how it answers a table."""
    if kind == "gate":
        combiner = train(tables, steps, seed, run=lambda c, t: answer(c, t, reading=False))
        return combiner, lambda t: answer(combiner, t, reading=False)
    if kind in READERS:
        combiner = train(tables, steps, seed, make=READERS[kind])
        return combiner, lambda t: answer(combiner, t)
    combiner = train(tables, steps, seed, make=lambda: WithBody(kind), run=lambda c, t: c.with_body(t))
    return combiner, combiner.with_body


if __name__ == "__main__":
    main()
