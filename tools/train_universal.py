"""Meta-train the universal read-out, and make the learners that ship with it.

    python -m tools.train_universal OUT

Writes `vectors` (features of any length), `photos` (a frozen ImageNet network and a whitening map) and
`everyday` (the Conv-4 encoder that `autocl train everyday-encoder` has made) into the folder OUT, all with
the same combiner, and records how.

Experts have no weights to train; only the combiner has. So what the experts say of many random streams, and
how they pass their examination, is computed once, and the combiner is trained on that: minutes on one core.

Streams are drawn from the meta-training sets of `autocl bench world` (`evaluation/world/sets.py`): image
sets, and folders of pictures made by `tools/class_folders.py`. Features are those
of the frozen network, mapped and not, plain pixels, clusters drawn at random, and of Conv-4, only for sets
that Conv-4 was not trained on: features of classes that trained an encoder are tighter than of new ones.
Features lose dimensions, are mixed, get noise or something of another image, so that the combiner does not
count on one encoder. Every fifth stream is a hard one, of classes that are nearly alike. Memories are of
several sizes, so that some streams are thirty times as long.
Validation sets report; nothing is trained on them.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from scipy.linalg import eigh
from tools.graft import place
from tools.record import record_of_run, write_record
from torch import Tensor
from torch.nn import functional as F

from autocl.encoders import EncoderConfig
from autocl.encoders.backbones import get_backbone
from autocl.encoders.fixed import Linear
from autocl.estimator.inputs import PHOTOS
from autocl.evaluation.world.sets import WORLDS, Eyes, backbone_eyes, learner_eyes, world_features
from autocl.learner import Learner
from autocl.learner.config import InputConfig, ReadoutLearnerConfig
from autocl.learner.find import find_learner
from autocl.learner.readout import ReadoutLearner
from autocl.readouts import ReadoutConfig
from autocl.readouts.combiner import Combiner
from autocl.readouts.examination import LONGEST, SHARPNESS, UNSEEN, Examination, examine
from autocl.readouts.experts import NAMES, all_experts
from autocl.readouts.memory import Memory
from autocl.readouts.universal import UniversalReadout, moments_of

Floats = npt.NDArray[np.float32]
World = list[list[Floats]]
"""Of each set, of each class, features [n, F]."""
UNSEEN_BY_CONV4 = ("fruits", "plants", "signs", "caltech", "letters", "clothes")
KEYS = 384
"""Dimensions of the map of `photos`."""
SHAPES = 16
"""Directions that `photos` keeps of each class: as many as 2 MB have room for at 100 classes."""
LEVEL = 3.0
"""Of a round scatter, in units of the within-class scatter, that is added before the map whitens it."""
MOST, OFTEN_LONG = 240, 0.12
"""Demos of a stream, fewer than a memory has places; how often it is long, of up to `LONGEST`."""
PLACES = (32, 64, 128, 256)
"""Of the memories that long streams go into, unless twice the number of labels is more."""
MOST_NOISE = 3.0
"""Noise or clutter that is added to features, in units of them; mostly little. House numbers and hands are
worse than anything that is practised on without it."""
HARD = 5
"""One stream in so many is of classes that are nearly alike, or under strong nuisance. Streams that are hard
for added noise reward class means; those that are hard by themselves reward discriminants, and were few."""
ALIKE = 0.6
"""Share of those in which classes are nearly alike."""
ASKED = 60
"""Queries of a stream, about."""
BATCH, LR = 16, 2e-3
NOISED = 0.2
"""Share of streams in which one expert answers at random and is examined as such: it must do no harm."""


class Table(NamedTuple):
    """One stream, as the combiner sees it; a batch of one."""

    exam: Examination
    scores: Tensor
    """[1, E, Q, N], what the experts say of queries."""
    answers: Tensor
    """[1, Q], -1 for padding."""


def worlds(split: str, eyes: Eyes, only: Sequence[str] = ()) -> World:
    """Features of the sets of a world by class."""
    found = world_features(split, eyes, say=print)  # type: ignore[arg-type]
    sets = []
    for name, of_set in found.items():
        if not only or name in only:
            ends = [*of_set.starts[1:], len(of_set.features)]
            pairs = zip(of_set.starts, ends, strict=False)
            sets.append([np.asarray(of_set.features[a:b], np.float32) for a, b in pairs if b > a])
    return sets


def pixel_eyes() -> Eyes:
    """16 × 16 gray pixels, each image standardised."""
    return Eyes(name="pixels", size=32, channels=None, encoder=lambda mean, std: _Pixels(), fingerprint="16")


class _Pixels:
    name, fingerprint, n_features, image_size = "pixels", "16 gray standardised", 256, 16

    def __call__(self, images: Sequence[Image.Image], /) -> Floats:
        small = [np.asarray(i.convert("L").resize((16, 16), Image.Resampling.BILINEAR)) for i in images]
        x = np.stack(small).reshape(len(small), -1).astype(np.float32)
        out: Floats = (x - x.mean(1, keepdims=True)) / (x.std(1, keepdims=True) + 1)
        return out


def whitening(sets: World) -> Floats:
    """The map [F, KEYS] of unit vectors in which classes of other sets scatter alike in all directions.

    Of all such maps the directions in which features are largest: generalised eigenvectors of all scatter
    against that within classes.
    """
    within = total = 0.0
    for of_set in sets:
        x = [unit(c) for c in of_set]
        apart, whole = np.concatenate([c - c.mean(0) for c in x]), np.concatenate(x)
        within = within + apart.T @ apart / len(apart) / len(sets)
        total = total + whole.T @ whole / len(whole) / len(sets)
    F = len(within)
    round_part = LEVEL * np.trace(within) / F * np.eye(F, dtype=np.float32)
    _, found = eigh(total, within + round_part, subset_by_index=[F - KEYS, F - 1])
    largest = np.take_along_axis(found, np.abs(found).argmax(0)[None], 0)
    strongest_first = (found * np.sign(largest))[:, ::-1]  # no sign is left to the linear algebra's version
    out: Floats = (strongest_first / np.abs(strongest_first).max()).astype(np.float32)
    return out


def mapped(sets: World, through: Floats) -> World:
    """The same features as `Linear` with this map gives them."""
    return [[unit(unit(c) @ through) for c in of_set] for of_set in sets]


def unit(x: Floats) -> Floats:
    """Rows of length one."""
    out: Floats = x / np.linalg.norm(x, axis=-1, keepdims=True)
    return out


def clusters(rng: np.random.Generator) -> list[Floats]:
    """A set drawn from a prior: Gaussian classes, uneven directions."""
    length = int(2 ** rng.uniform(1, 8))
    scale = rng.lognormal(0, rng.uniform(0, 1.5), length)
    centre = rng.standard_normal((60, 1, length)) * rng.uniform(0.3, 2)
    return list(((centre + rng.standard_normal((60, 24, length))) * scale).astype(np.float32))


def changed(x: Floats, rng: np.random.Generator, *, all_directions: bool) -> Floats:
    """Features [n, F] of an encoder that does not exist: fewer dimensions, mixed ones, noise or clutter.

    Args:
        x: the features.
        rng: decides.
        all_directions: keep the dimensions as they are.
    """
    length, kind = x.shape[-1], rng.random()
    if kind < 0.4 or length <= 16:
        return x
    if kind < 0.75:
        much = MOST_NOISE * rng.uniform(0, 1) ** 2
        if kind < 0.48:
            more = x.std() * rng.standard_normal(x.shape)
        elif kind < 0.56:  # something of another image, as when a picture shows more than one thing
            more = x[rng.permutation(len(x))]
        else:
            return nuisance(x, much, int(2 ** rng.uniform(0, 6)), rng)
        return (x + much * more).astype(np.float32)
    if all_directions:
        return x
    if kind < 0.87:
        return x[..., rng.permutation(length)[: int(2 ** rng.uniform(4, np.log2(length)))]]
    mixed = rng.standard_normal((length, int(2 ** rng.uniform(4, 9)))) / np.sqrt(length)
    return (x @ (mixed * rng.lognormal(0, rng.uniform(0, 1), mixed.shape[1]))).astype(np.float32)


def nuisance(x: Floats, much: float, few: int, rng: np.random.Generator) -> Floats:
    """Features [n, F] with a few directions in which all classes vary, as backgrounds or persons do."""
    directions = rng.standard_normal((few, len(x))) @ (x - x.mean(0)) / np.sqrt(few * len(x))
    return (x + much * (rng.standard_normal((len(x), few)) @ directions)).astype(np.float32)


def strong_nuisance(x: Floats, rng: np.random.Generator) -> Floats:
    """The same, mostly more of it than there is of anything else."""
    return nuisance(x, rng.uniform(0.5, 4), int(2 ** rng.uniform(0, 7)), rng)


def alike(classes: list[Floats], rng: np.random.Generator) -> list[Floats]:
    """Classes that differ no more than images of one class do: what is left of all images of a set without
    their class means, around means of a few of those."""
    apart = rng.permutation(np.concatenate([c - c.mean(0) for c in classes]))
    means = [c.mean(0) for c in classes]
    middle = means[rng.integers(len(means))] if rng.random() < 0.5 else np.mean(means, 0)
    n = min(40, len(apart) // 12)
    if n < 2:
        return classes
    per, few = min(len(apart) // n, 60), int(np.ceil(2 ** rng.uniform(0, 5)))
    of_few = [apart[rng.integers(len(apart), size=few)].mean(0) for _ in range(n)]
    return [(middle + d + apart[i * per : (i + 1) * per]).astype(np.float32) for i, d in enumerate(of_few)]


def table(
    readout: UniversalReadout,
    classes: list[Floats],
    rng: np.random.Generator,
    change: Callable[[Floats, np.random.Generator], Floats] | None = None,
) -> Table:
    """Draw a stream of random shape, and let the experts answer and be examined."""
    long = rng.random() < OFTEN_LONG
    shots = int(rng.choice([5, 15, 30, 33] if long else [1, 1, 2, 3, 5, 5, 10, 15, 15]))
    most, classes_at_most = (LONGEST, 60) if long else (MOST, 40)
    number = max(2, min(int(rng.integers(2, classes_at_most + 1)), most // shots, len(classes)))
    labels = number if rng.random() < 0.55 else 2
    if labels == 2 and rng.random() < 0.3:
        labels = int(rng.integers(2, number + 1))
    unequal, asked = rng.random() < 0.25, max(1, min(6, ASKED // number))
    demos, queries, y, answers = [], [], [], []
    for i, c in enumerate(rng.permutation(len(classes))[:number]):
        x = classes[c][rng.permutation(len(classes[c]))]
        shown = int(rng.integers(1, 2 * shots + 1)) if unequal else shots
        shown = max(1, min(shown, len(x) - asked))
        demos.append(x[:shown])
        queries.append(x[shown : shown + asked])
        y += [i % labels] * shown
        answers += [i % labels] * len(queries[-1])
    label = np.array(y)
    if rng.random() < 0.15:
        label = np.where(rng.random(len(y)) < 0.1, rng.integers(labels, size=len(y)), label)
    right = np.array(answers)
    both = np.concatenate([*demos, *queries])
    both = change(both, rng) if change else both
    f = torch.from_numpy(np.ascontiguousarray(both))[None]
    known = torch.from_numpy(np.isin(right, label))
    state = readout.initial_state(1, labels)
    if long:
        state |= Memory.empty(1, max(int(rng.choice(PLACES)), 2 * labels), f)._asdict()
    state = readout.learn(f[:, : len(y)], torch.from_numpy(label)[None], state)
    moments = moments_of(state)
    experts = all_experts(moments)
    scores = experts.read(readout.key(f[:, len(y) :][:, known]).double())
    exam = examine(experts.left_out, moments)
    exam = Examination(*(t.float() if t.is_floating_point() else t for t in exam))
    return Table(exam, scores.float(), torch.from_numpy(right)[None, known])


def draw(practice: dict[str, World], seed: int, i: int) -> Table:
    """Stream i: of clusters, or of one of the sets through the eyes whose turn it is."""
    rng, readout = np.random.default_rng([seed, i]), UniversalReadout()
    if rng.random() < 0.15:
        return table(readout, clusters(rng), rng)
    name = list(practice)[i % len(practice)]
    sets = practice[name]
    classes = sets[rng.integers(len(sets))]
    change = partial(changed, all_directions=name == PHOTOS[1])  # nobody else's features go through its map
    if i % HARD < HARD - 1:
        return table(readout, classes, rng, change)
    if rng.random() > ALIKE:
        return table(readout, classes, rng, strong_nuisance)
    return table(readout, alike(classes, rng), rng, change)


def noised(t: Table, generator: torch.Generator) -> Table:
    """The same with one expert that answers at random and is examined as such."""
    e = int(torch.randint(t.scores.shape[1], (), generator=generator))
    exam, scores = t.exam, t.scores.clone()
    scores[:, e] = torch.randn(scores[:, e].shape, generator=generator)
    left_out, loss, accuracy = exam.left_out.clone(), exam.loss.clone(), exam.accuracy.clone()
    left_out[:, e] = torch.randn(left_out[:, e].shape, generator=generator)
    if bool(exam.weight.sum() > 0):
        said = left_out[0, e].masked_fill(exam.demos == 0, UNSEEN)
        for s, sharpness in enumerate(SHARPNESS):
            wrong = F.cross_entropy(sharpness * said, exam.label[0], reduction="none")
            loss[0, e, s] = (wrong * exam.weight[0]).sum()
        accuracy[0, e] = ((said.argmax(-1) == exam.label[0]) * exam.weight[0]).sum()
    return Table(exam._replace(left_out=left_out, loss=loss, accuracy=accuracy), scores, t.answers)


def batched(tables: Sequence[Table]) -> Table:
    """Several streams side by side, filled up to the size of the largest."""

    def filled(parts: Sequence[Tensor], value: float) -> Tensor:
        shape = [max(sizes) for sizes in zip(*(p.shape[1:] for p in parts), strict=True)]
        out = parts[0].new_full((len(parts), *shape), value)
        for row, part in zip(out, parts, strict=True):
            row[tuple(slice(n) for n in part.shape[1:])] = part[0]
        return out

    exams = [t.exam for t in tables]
    values = {"left_out": UNSEEN}
    fields = {
        name: filled([getattr(e, name) for e in exams], values.get(name, 0)) for name in Examination._fields
    }
    exam = Examination(**fields)
    return Table(exam, filled([t.scores for t in tables], UNSEEN), filled([t.answers for t in tables], -1))


def answer(combiner: Combiner, t: Table, *, reading: bool = True) -> Tensor:
    """Logits [B, Q, N]; without reader and body if asked."""
    trust = combiner.judge(t.exam)
    return combiner.answer(t.scores, trust) if reading else combiner.base(t.scores, trust)[0]


def loss_of(logits: Tensor, answers: Tensor) -> Tensor:
    """Mean over streams of their cross-entropy."""
    each = F.cross_entropy(logits.flatten(0, 1), answers.flatten(), ignore_index=-1, reduction="none")
    asked = answers >= 0
    return ((each.view_as(answers) * asked).sum(1) / asked.sum(1).clamp(min=1)).mean()


def train(
    tables: list[Table],
    steps: int,
    seed: int,
    *,
    make: Callable[[], Combiner] = lambda: Combiner(len(NAMES)),
    run: Callable[[Any, Table], Tensor] = answer,
) -> Any:
    """A combiner, trained on streams of like size side by side.

    Args:
        tables: the streams.
        steps: of gradient descent.
        seed: of its first weights and the order of streams.
        make: builds it.
        run: lets it answer a batch of tables.
    """
    torch.manual_seed(seed)
    rng, generator = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
    combiner = make()
    tables = sorted(tables, key=lambda t: t.exam.left_out.shape[2] * t.exam.left_out.shape[3])
    optimiser = torch.optim.AdamW(combiner.parameters(), lr=LR, weight_decay=1e-2)
    for step in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = LR * (1 - step / steps) * min(1.0, (step + 1) / 50)
        first = int(rng.integers(len(tables) - BATCH))
        chosen = tables[first : first + BATCH]
        batch = batched([noised(t, generator) if rng.random() < NOISED else t for t in chosen])
        loss = loss_of(run(combiner, batch), batch.answers)
        optimiser.zero_grad()
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(combiner.parameters(), 1.0)
        optimiser.step()
        if step % 200 == 199:
            print(f"step {step + 1} of {steps}: loss {float(loss.detach()):.3f}", flush=True)
    return combiner.eval()


def report(combiner: Combiner, tables: Sequence[Table]) -> Iterator[str]:
    """Accuracies in percent: of all, without reader and body, with one expert at random, of every expert."""
    generator = torch.Generator().manual_seed(0)

    def right(logits: Tensor, t: Table) -> float:
        return float((logits.argmax(-1) == t.answers).float().mean())

    with torch.no_grad():
        whole = np.mean([right(answer(combiner, t), t) for t in tables])
        gate = np.mean([right(answer(combiner, t, reading=False), t) for t in tables])
        broken = np.mean([right(answer(combiner, noised(t, generator)), t) for t in tables])
        loss = np.mean([float(loss_of(answer(combiner, t), t.answers)) for t in tables])
        each = [np.mean([right(t.scores[:, e], t) for t in tables]) for e in range(len(NAMES))]
    yield f"all {100 * whole:.2f} (cross-entropy {loss:.3f}), without reader and body {100 * gate:.2f}"
    yield f"with one expert at random {100 * broken:.2f}"
    yield "alone: " + ", ".join(f"{n} {100 * a:.2f}" for n, a in zip(NAMES, each, strict=True))


def learners(combiner: Combiner, through: Tensor, encoder: Learner) -> dict[str, Learner]:
    """What ships, by name."""
    readout = ReadoutConfig(kind="universal")
    vectors = ReadoutLearnerConfig(
        n_classes=2, channels=1, height=1, width=1, encoder=EncoderConfig(kind="identity"), readout=readout
    )
    photos = replace(
        vectors, channels=len(through), encoder=EncoderConfig(kind="linear", width=KEYS),
        readout=replace(readout, shapes=SHAPES),
    )  # fmt: skip
    c: InputConfig = encoder.config
    everyday = ReadoutLearnerConfig(
        n_classes=2, channels=c.channels, height=c.height, width=c.width, standardise="image",
        encoder=encoder.config.encoder, readout=readout,
    )  # fmt: skip
    made: dict[str, Learner] = {
        "vectors": Learner(vectors),
        "photos": Learner(photos),
        "everyday": ReadoutLearner(everyday, encoder=encoder.encoder),
    }
    for learner in made.values():
        assert isinstance(learner, ReadoutLearner)
        assert isinstance(learner.readout, UniversalReadout)
        learner.readout.combiner.load_state_dict(combiner.state_dict())
        if isinstance(learner.encoder, Linear):
            learner.encoder.map.copy_(through)
    return made


def main() -> None:
    """Draw the tables, train, report, save."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument(
        "--encoder", default="everyday-encoder", help="recipe, learner or run whose encoder `everyday` has"
    )
    parser.add_argument("--streams", type=int, default=48_000)
    parser.add_argument("--steps", type=int, default=16_000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    encoder_from = place(args.encoder)
    encoder = find_learner(encoder_from)
    conv4 = ReadoutLearner(
        ReadoutLearnerConfig(n_classes=2, standardise="image", encoder=encoder.config.encoder),
        encoder=encoder.encoder,
    ).eval()
    eyes = {
        "lite2": backbone_eyes(get_backbone("lite2")),
        PHOTOS[1]: backbone_eyes(get_backbone(PHOTOS[1])),
        "conv4": learner_eyes(conv4, "conv4"),
        "pixels": pixel_eyes(),
    }
    practice = {
        name: worlds("meta-training", e, UNSEEN_BY_CONV4 if name == "conv4" else ())
        for name, e in eyes.items()
    }
    through = whitening(practice[PHOTOS[1]]).astype(np.float16).astype(np.float32)
    practice[PHOTOS[1]] = mapped(practice[PHOTOS[1]], through)
    tables: list[Table] = []
    with torch.no_grad():
        for i in range(args.streams):
            tables.append(draw(practice, args.seed, i))
            if i % 500 == 499:
                print(f"{i + 1} of {args.streams} streams", flush=True)
    combiner = train(tables, args.steps, args.seed)
    readout, rng = UniversalReadout(), np.random.default_rng(args.seed)
    for name, e in eyes.items():
        sets = worlds("validation", e)
        sets = mapped(sets, through) if name == PHOTOS[1] else sets
        with torch.no_grad():
            judged = [table(readout, sets[i % len(sets)], rng) for i in range(300)]
        print(f"{name}:", *report(combiner, judged), sep="\n  ")
    meta = {
        "recipe": "universal", "seed": str(args.seed), "steps": str(args.steps),
        "sets": " ".join(key.partition("/")[0] for key in WORLDS["meta-training"]),
        "encoder_from": args.encoder,
    }  # fmt: skip
    for name, learner in learners(combiner, torch.from_numpy(through), encoder).items():
        more = {"backbone": PHOTOS[1]} if name == PHOTOS[0] else {}
        print(learner.save_pretrained(args.out / f"{name}.safetensors", meta=meta | more))
        record: dict[str, Any] = {
            "fingerprint": learner.fingerprint(),
            "command": f"python -m tools.train_universal {' '.join(sys.argv[1:])}",
        }
        if name == "everyday" and Path(encoder_from).is_dir():
            record["encoder"] = record_of_run(Path(encoder_from))
        write_record(name, record, args.out)


if __name__ == "__main__":
    main()
