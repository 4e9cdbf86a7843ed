"""Meta-train the gate of the universal read-out, from nothing: `python -m tools.train_vectors OUT`.

The experts of the read-out have no weights to train; only the gate has. So what the experts say of many
random streams, and how they pass their examination, is computed once, and the gate is trained on that:
minutes, where the trainer would compute the experts again at every step.

Streams come from classes for meta-training (Omniglot, mini- and Tiny-ImageNet), through a frozen ImageNet
network and as plain pixels, and from clusters drawn at random; features lose dimensions, are mixed or get
noise, so that the gate does not count on one encoder. Validation classes of Omniglot and mini-ImageNet only
report; nothing is chosen by them.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from autocl.data import ImageSet, from_arrays, load
from autocl.data.features import compute_features
from autocl.encoders import EncoderConfig
from autocl.encoders.backbones import get_backbone
from autocl.learner import Learner
from autocl.learner.config import ReadoutLearnerConfig
from autocl.readouts import ReadoutConfig
from autocl.readouts.universal import SHARPNESS, UniversalReadout, examine, facts_of, key, moments_of

Floats = npt.NDArray[np.float32]
TRAIN = {"omniglot": 300, "mini_imagenet": 64, "tiny_imagenet": 100}
"""Classes taken of each set's training classes."""
VALIDATION = {"omniglot": 80, "mini_imagenet": 16}
IMAGES = 20
"""Of each class, which is all that Omniglot has."""
MOST = 300
"""Demos of a stream: some streams are longer than the memory has places."""
QUERIES = 4
BATCH, LR = 12, 2e-3
NOISED = 0.25
"""Share of streams in which one expert answers at random and is examined as such: it must do no harm."""


class Table(NamedTuple):
    """One stream, as the gate sees it."""

    scores: Tensor
    """[E, Q, N]."""
    loss: Tensor
    """[E, S]."""
    accuracy: Tensor
    """[E]."""
    facts: Tensor
    answers: Tensor
    """[Q]."""


def feature_sets(split: str, classes: dict[str, int]) -> list[Floats]:
    """Features [K, IMAGES, F] of the sets: of a frozen network, and plain pixels."""
    found = []
    for name, number in classes.items():
        options = {"exclude_mini_imagenet": True} if name == "tiny_imagenet" else {}
        images = _part(load(name, split, **options), number)
        made = compute_features(images, get_backbone("lite0"), workers=1)
        found.append(np.asarray(made.features, np.float32).reshape(images.n_classes, IMAGES, -1))
        gray = images.images.mean(1, dtype=np.float32)[:, ::2, ::2].reshape(images.n_classes, IMAGES, -1)
        found.append((gray - gray.mean(-1, keepdims=True)) / (gray.std(-1, keepdims=True) + 1e-3))
    return found


def _part(images: ImageSet, number: int) -> ImageSet:
    rng = np.random.default_rng(0)
    chosen = np.sort(rng.permutation(images.n_classes)[:number])
    rows = np.concatenate(
        [images.starts[c] + np.sort(rng.permutation(images.counts[c])[:IMAGES]) for c in chosen]
    )
    labels = np.repeat([images.classes[c] for c in chosen], IMAGES)
    return from_arrays(images.images[rows], labels, name=f"{images.name}-{images.split}-{number}")


def clusters(rng: np.random.Generator) -> Floats:
    """Features [K, IMAGES, F] of a world drawn from a prior: Gaussian classes, uneven directions."""
    length = int(2 ** rng.uniform(1, 8))
    scale = rng.lognormal(0, rng.uniform(0, 1.5), length)
    centre = rng.standard_normal((60, 1, length)) * rng.uniform(0.3, 2)
    return ((centre + rng.standard_normal((60, IMAGES, length))) * scale).astype(np.float32)


def changed(f: Floats, rng: np.random.Generator) -> Floats:
    """Features of an encoder that does not exist: fewer dimensions, mixed ones, or noise."""
    length, kind = f.shape[-1], rng.random()
    if kind < 0.4 or length <= 16:
        return f
    if kind < 0.6:
        return f[..., rng.permutation(length)[: int(2 ** rng.uniform(4, np.log2(length)))]]
    if kind < 0.8:
        mixed = rng.standard_normal((length, int(2 ** rng.uniform(4, 9)))) / np.sqrt(length)
        return (f @ (mixed * rng.lognormal(0, rng.uniform(0, 1), mixed.shape[1]))).astype(np.float32)
    return (f + rng.uniform(0, 1) * f.std() * rng.standard_normal(f.shape)).astype(np.float32)


def table(readout: UniversalReadout, source: Floats, rng: np.random.Generator, *, change: bool) -> Table:
    """Draw a stream of random shape, and let the experts answer and be examined."""
    shots = int(rng.choice([1, 2, 3, 5, 10, 15]))
    number = int(rng.integers(2, min(len(source), 40) + 1))
    number = max(2, min(number, MOST // shots))
    labels = int(rng.choice([number, 2, rng.integers(2, number + 1)]))
    x = source[rng.permutation(len(source))[:number]][:, rng.permutation(IMAGES)[: shots + QUERIES]]
    x = changed(x, rng) if change else x
    shown = rng.integers(1, shots + 1, number) if rng.random() < 0.4 else np.full(number, shots)
    label = np.arange(number) % labels
    demos = np.concatenate([x[c, : shown[c]] for c in range(number)])
    y = np.repeat(label, shown)
    if rng.random() < 0.15:
        y = np.where(rng.random(len(y)) < 0.1, rng.integers(labels, size=len(y)), y)
    queries, answers = x[:, shots:].reshape(-1, x.shape[-1]), np.repeat(label, QUERIES)
    asked = np.isin(answers, y)
    with torch.no_grad():
        state = readout.initial_state(1, labels)
        state = readout.learn(torch.from_numpy(demos)[None], torch.from_numpy(y)[None], state)
        moments = moments_of(state)
        experts = readout.experts(moments)
        loss, accuracy, examined = examine(experts, moments)
        q = key(torch.from_numpy(queries[asked])[None]).double()
        scores = torch.stack([expert.read(q)[0] for expert in experts])
        scores = scores.masked_fill(state["count"][0] == 0, -1e4)
        return Table(
            scores.float(), loss[0].float(), accuracy[0].float(), facts_of(moments, examined)[0].float(),
            torch.from_numpy(answers[asked]),
        )  # fmt: skip


def noised(t: Table, generator: torch.Generator) -> Table:
    """The same with one expert that answers at random, examined on 64 questions."""
    e = int(torch.randint(len(t.scores), (), generator=generator))
    N = t.scores.shape[-1]
    guesses, truth = torch.randn(64, N, generator=generator), torch.randint(N, (64,), generator=generator)
    scores, loss, accuracy = t.scores.clone(), t.loss.clone(), t.accuracy.clone()
    scores[e] = torch.randn(scores[e].shape, generator=generator)
    loss[e] = torch.stack([F.cross_entropy(s * guesses, truth) for s in SHARPNESS])
    accuracy[e] = (guesses.argmax(1) == truth).float().mean()
    return t._replace(scores=scores, loss=loss, accuracy=accuracy)


def logits(readout: UniversalReadout, t: Table) -> Tensor:
    """What the gate makes of the experts, [Q, N]."""
    share, sharpness = readout.gate(t.loss[None], t.accuracy[None], t.facts[None])
    each = (sharpness[0, :, None, None] * t.scores).log_softmax(-1)
    return (share[0, :, None, None] * each).sum(0)


def report(readout: UniversalReadout, tables: list[Table], generator: torch.Generator) -> Iterator[str]:
    """Accuracy of all, of all with one expert at random, and of every expert alone, in percent."""
    with torch.no_grad():
        whole = np.mean([float((logits(readout, t).argmax(1) == t.answers).float().mean()) for t in tables])
        broken = [logits(readout, noised(t, generator)).argmax(1) == t.answers for t in tables]
        alone = torch.stack([(t.scores.argmax(-1) == t.answers).float().mean(1) for t in tables]).mean(0)
    harmed = np.mean([float(right.float().mean()) for right in broken])
    yield f"gate {100 * whole:.2f}, one expert at random {100 * harmed:.2f}"
    yield "experts alone " + " ".join(f"{100 * float(a):.2f}" for a in alone)


def main() -> None:
    """Draw the tables, train, report, save."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--streams", type=int, default=3000)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    rng, generator = np.random.default_rng(args.seed), torch.Generator().manual_seed(args.seed)
    config = ReadoutLearnerConfig(
        n_classes=2, channels=1, height=1, width=1, encoder=EncoderConfig(kind="identity"),
        readout=ReadoutConfig(kind="universal"),
    )  # fmt: skip
    learner = Learner(config)
    readout = UniversalReadout()
    sets, held_out = feature_sets("train", TRAIN), feature_sets("val", VALIDATION)
    tables: list[Table] = []
    for i in range(args.streams):
        source = clusters(rng) if rng.random() < 0.2 else sets[rng.integers(len(sets))]
        tables.append(table(readout, source, rng, change=True))
        if i % 200 == 199:
            print(f"{i + 1} of {args.streams} streams", flush=True)
    judged = [table(readout, held_out[i % len(held_out)], rng, change=False) for i in range(300)]
    optimiser = torch.optim.AdamW(readout.gate.parameters(), lr=LR, weight_decay=1e-2)
    for step in range(args.steps):
        for group in optimiser.param_groups:
            group["lr"] = LR * (1 - step / args.steps)
        chosen = [tables[i] for i in rng.integers(len(tables), size=BATCH)]
        chosen = [noised(t, generator) if rng.random() < NOISED else t for t in chosen]
        loss = torch.stack([F.cross_entropy(logits(readout, t), t.answers) for t in chosen]).mean()
        optimiser.zero_grad()
        torch.autograd.backward(loss)
        optimiser.step()
    print(*report(readout, judged, generator), sep="\n")
    learner.load_weights({f"readout.{name}": value for name, value in readout.state_dict().items()})
    meta = {"recipe": "vectors", "seed": str(args.seed), "steps": str(args.steps), "sets": " ".join(TRAIN)}
    print(learner.save_pretrained(args.out, meta=meta))


if __name__ == "__main__":
    main()
