"""Streams per second of the fast_two_task step, beside the paper's step: `python -m benchmarks.training`.

Five contestants take turns, so that a busy machine slows all alike:
  naive        the paper's step as one writes it down in PyTorch: every stream draws its own images, one query
               for each task, one token after the other, convolutions as an nn.Sequential
  paper        paper_two_task through our trainer: the same streams as naive, our kernels
  independent  fast_two_task with our kernels, but every stream draws its own images (no pool)
  pooled       fast_two_task as it is: the products of encoder and dense layers in bfloat16
  float32      the same, in float32 throughout
All meta-train the same model on 2 tasks × 5 ways × 15 shots; all but naive and paper ask 15 queries of each
task where these ask one. Only shapes matter for speed, so the pixels are noise, in sets of the sizes of
Omniglot with rotations and mini-ImageNet. Seconds are of the processor, over all threads: on a machine that
does other things as well the clock measures those, too; seconds on the clock stand beside them.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autocl.data.imageset import ImageSet
from autocl.data.sampler import StreamSampler
from autocl.data.stream import Task
from autocl.ops.srwm import srwm
from autocl.ops.srwm.naive import step as srwm_step
from autocl.recipes import get_recipe
from autocl.training import parallel, run
from autocl.training.recipe import Recipe
from autocl.training.step import TrainingStep, train_step


@dataclass(frozen=True, kw_only=True)
class Took:
    """Medians over rounds."""

    cpu: float
    clock: float


def take_turns(contestants: dict[str, Callable[[], object]], rounds: int) -> dict[str, Took]:
    """Seconds of each contestant, after a first round that compiles and warms up."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in contestants}
    for number in range(rounds + 1):
        for name, work in contestants.items():
            cpu, clock = time.process_time(), time.perf_counter()
            work()
            if number:
                times[name].append((time.process_time() - cpu, time.perf_counter() - clock))
    return {
        name: Took(cpu=median(c for c, _ in spent), clock=median(w for _, w in spent))
        for name, spent in times.items()
    }


def noise_set(name: str, classes: int, images: int, channels: int) -> ImageSet:
    pixels = np.random.default_rng(0).integers(256, size=(classes * images, channels, 32, 32), dtype=np.uint8)
    return ImageSet(
        name=name,
        split="noise",
        images=pixels,
        starts=np.arange(classes + 1) * images,
        classes=tuple(f"{name}/{c}" for c in range(classes)),
        mean=(0.5,) * channels,
        std=(0.5,) * channels,
    )


WIDTH, HEADS, D, WAYS = 256, 16, 16, 5
State = list[Tensor]


class NaiveLearner(nn.Module):
    """The paper's model (SPEC §2), one token at a time."""

    def __init__(self) -> None:
        super().__init__()
        blocks = [
            (nn.Conv2d(3 if i == 0 else 32, 32, 3, padding=1), nn.InstanceNorm2d(32, affine=True),
             nn.MaxPool2d(2), nn.Dropout(0.1), nn.ReLU())
            for i in range(4)
        ]  # fmt: skip
        self.conv = nn.Sequential(*(layer for block in blocks for layer in block), nn.Flatten())
        self.input = nn.Linear(128 + WAYS + 1, WIDTH)
        self.W = nn.ParameterList(torch.randn(1, HEADS, 3 * D + 4, D) / D**0.5 for _ in range(2))
        self.norm = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.out = nn.ModuleList(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(2))
        self.feed = nn.ModuleList(
            nn.Sequential(
                nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 512), nn.ReLU(), nn.Dropout(0.1),
                nn.Linear(512, WIDTH), nn.Dropout(0.1),
            )
            for _ in range(2)
        )  # fmt: skip
        self.head = nn.Linear(WIDTH, WAYS)

    def forward(self, images: Tensor, labels: Tensor, state: State) -> tuple[Tensor, State]:
        """Images [B, T, 3, 32, 32], labels [B, T] -> logits [B, T, N], and the weights after them."""
        f = self.conv(images.flatten(0, 1)).unflatten(0, labels.shape)
        h = self.input(torch.cat([f, F.one_hot(labels, WAYS + 1)], -1))
        after = []
        for i, W in enumerate(state):
            heads, ys = h.unflatten(-1, (HEADS, D)), []
            for t in range(h.shape[1]):
                y, W = srwm_step(W, heads[:, t])
                ys.append(y.flatten(1))
            after.append(W)
            h = self.norm[i](h) + F.dropout(self.out[i](torch.stack(ys, 1)), 0.1)
            h = h + self.feed[i](h)
        return self.head(h), after


class NaiveStep:
    """One step of two-task training as SPEC §3.2 lists its passes."""

    def __init__(self, sampler: StreamSampler) -> None:
        self.sampler, self.number = sampler, 0
        self.learner = NaiveLearner()
        self.optimiser = torch.optim.Adam(self.learner.parameters(), 1e-3, (0.9, 0.995), 1e-9)

    def __call__(self) -> None:
        batch = self.sampler.batch(self.number)
        pixels = self.sampler.images(batch, channels=3)
        self.number += 1
        state = [W.expand(self.sampler.batch_size, -1, -1, -1) for W in self.learner.W]

        def ask(task: Task, state: State) -> Tensor:
            unknown = torch.full_like(task.queries, WAYS)
            logits, _ = self.learner(pixels[task.queries], unknown, state)
            return F.cross_entropy(logits.flatten(0, 1), task.query_labels.flatten())

        terms = []
        for i, task in enumerate(batch.tasks):
            assert task.one_shot is not None
            assert task.one_shot_labels is not None
            _, tried = self.learner(pixels[task.one_shot], task.one_shot_labels, state)
            terms.append(ask(task, tried))
            _, state = self.learner(pixels[task.demos], task.demo_labels, state)
            terms += [ask(earlier, state) for earlier in batch.tasks[: i + 1]]
        self.optimiser.zero_grad()
        torch.stack(terms).mean().backward()
        self.optimiser.step()


class OurStep:
    """One step of a recipe, through the trainer's own code."""

    def __init__(self, recipe: Recipe, sampler: StreamSampler) -> None:
        ranks = parallel.Ranks(rank=0, world=1, device=torch.device("cpu"))
        with patch.object(run, "samplers", lambda _: (sampler, sampler)):
            self.run = run.prepare(recipe, Path(), ranks)
        self.module, self.number = TrainingStep(self.run.learner, recipe), 0

    def __call__(self) -> None:
        train_step(self.run, self.module, self.number)
        self.number += 1

    def parts(self) -> dict[str, float]:
        """Seconds of drawing, of encoding and of the recurrence alone, with their backward passes."""
        learner, recipe, sampler = self.run.learner, self.run.recipe, self.run.train
        batch = sampler.batch(self.number)
        images = sampler.images(batch, channels=3)

        def draw() -> None:
            sampler.images(sampler.batch(self.number), channels=3, augment=recipe.augments)

        def encode() -> None:
            with torch.autocast("cpu", torch.bfloat16, enabled=recipe.bf16):
                features = learner.encoder(images)
            features.sum().backward()

        inputs = [torch.randn(recipe.batch_size, HEADS, t.demos.shape[1], D) for t in batch.tasks]

        def recur() -> None:
            for layer in (0, 2):
                W = learner.layers[layer].W[None]
                for u in inputs:
                    y, W = srwm(u.requires_grad_(), W)
                (W.sum() + y.sum()).backward()

        took = take_turns({"draw": draw, "encode": encode, "recur": recur}, 5)
        return {name: t.cpu for name, t in took.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--naive-streams", type=int, default=16, help="streams of the naive step; 16 or 32")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    sets = [noise_set("strokes", 4112, 20, 1), noise_set("photos", 64, 600, 3)]
    fast, paper = get_recipe("fast_two_task"), get_recipe("paper_two_task")
    alone = replace(fast, streams=replace(fast.streams, drawing="independent"))

    def sampler(recipe: Recipe, streams: int) -> StreamSampler:
        return StreamSampler(sets, recipe.streams, streams, seed=0)

    steps = {
        "naive": NaiveStep(sampler(paper, args.naive_streams)),
        "paper": OurStep(paper, sampler(paper, paper.batch_size)),
        "independent": OurStep(alone, sampler(alone, fast.batch_size)),
        "float32": OurStep(replace(fast, bf16=False), sampler(fast, fast.batch_size)),
        "pooled": OurStep(fast, sampler(fast, fast.batch_size)),
    }
    streams = dict.fromkeys(steps, fast.batch_size) | {"naive": args.naive_streams}
    started = time.perf_counter()
    took = take_turns(dict(steps), args.rounds)
    rate = {name: streams[name] / t.cpu for name, t in took.items()}
    print(f"torch {torch.__version__}, {args.threads} thread(s), median of {args.rounds} rounds")
    for name, step in steps.items():
        sampler_of = step.sampler if isinstance(step, NaiveStep) else step.run.train
        print(
            f"{name:<12}{took[name].cpu:7.2f} s a step ({took[name].clock:.2f} on the clock) of "
            f"{streams[name]} streams, {len(sampler_of.batch(0).pool):5d} images,{rate[name]:7.1f} streams/s"
            f"; pooled is {rate['pooled'] / rate[name]:.1f}×"
        )
        if isinstance(step, OurStep):
            part = step.parts()
            part["rest"] = took[name].cpu - sum(part.values())
            print(" " * 12 + ", ".join(f"{p} {1e3 * s:.0f} ms" for p, s in part.items()))
    print(f"({time.perf_counter() - started:.0f} s in all)")


if __name__ == "__main__":
    main()
