"""StreamSampler: step number in, batch of streams out.

Shape legend: B = streams, U = distinct images of a batch, C = channels, H, W = pixels.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch

from autocl.data.draw import ClassIndex, draw_pool
from autocl.data.drawn_streams import draw_streams, plan_sets
from autocl.data.imageset import Augmentation, ImageSet, LabelledSet
from autocl.data.preprocess import Standardise
from autocl.data.stream import Stream
from autocl.data.stream_config import RandomStreamConfig, StreamConfig
from autocl.errors import InputError


class StreamSampler:
    """Draws the streams of a training or validation step from sets of images or of vectors.

    A batch is a pure function of (seed, step): nothing is remembered between calls, so a run resumes
    anywhere, and any number of workers or ranks sees the same streams.

    Example:
        >>> import numpy as np
        >>> pixels = np.zeros((200, 1, 8, 8), np.uint8)
        >>> toy = ImageSet(name="toy", split="train", images=pixels, starts=np.arange(0, 201, 20),
        ...                classes=tuple("abcdefghij"), mean=(0.5,), std=(0.5,))
        >>> config = StreamConfig(tasks=2, ways=2, shots=5, pool_classes=10)
        >>> sampler = StreamSampler([toy], config, batch_size=4, seed=0)
        >>> batch = sampler.batch(step=7)
        >>> batch.tasks[1].demos.shape, sampler.images(batch).shape
        (torch.Size([4, 10]), torch.Size([200, 1, 8, 8]))
    """

    def __init__(
        self,
        sets: Sequence[LabelledSet],
        config: StreamConfig | RandomStreamConfig,
        batch_size: int,
        seed: int,
    ) -> None:
        """Store the arguments and check that the sets can serve the request.

        Args:
            sets: in the order that `StreamConfig.order` means. All images of one height and width, or all
                vectors (`FeatureSet`) of one length.
            config: the shape of the streams.
            batch_size: B, streams of the global batch.
            seed: at least 0.
        """
        self.sets = tuple(sets)
        self.config = config
        self.batch_size = batch_size
        self.seed = seed
        if batch_size < 1 or seed < 0:
            raise InputError(
                f"batch_size must be at least 1 and seed at least 0, got {batch_size} and {seed}"
            )
        check_sets(self.sets, config)
        self._offsets = np.cumsum([0, *(int(s.starts[-1]) for s in self.sets[:-1])])
        firsts = (s.starts[:-1] + at for s, at in zip(self.sets, self._offsets, strict=True))
        self._whole = [ClassIndex(first=f, count=s.counts) for s, f in zip(self.sets, firsts, strict=True)]
        # Start of every class in the concatenated index space: from image number to class by bisection.
        self._class_starts = torch.from_numpy(np.concatenate([w.first for w in self._whole]))

    def batch(self, step: int, lo: int = 0, hi: int | None = None) -> Stream:
        """The streams of a step, or the part [lo, hi) of them.

        Parts of one step put together are the whole: rank r of a distributed run asks for its own share. With
        pooled drawing each part has the same pool; with independent drawing a part's pool holds just the
        images its streams use.

        Args:
            step: at least 0.
            lo: first stream.
            hi: behind the last stream; default: all.

        Returns:
            hi - lo streams. `pool` is grouped by set, in the order of the sampler's sets.
        """
        hi = self.batch_size if hi is None else hi
        if step < 0:
            raise InputError(f"step must be at least 0, got {step}")
        if not 0 <= lo < hi <= self.batch_size:
            raise InputError(
                f"streams [{lo}, {hi}) are not a part of the {self.batch_size} streams of a batch"
            )
        rng, config = np.random.default_rng((self.seed, step)), self.config
        plan = plan_sets(rng, config, step, len(self.sets))
        sources, pool = dict(enumerate(self._whole)), None
        if config.drawing == "pooled":
            sources, numbers = draw_pool(
                rng, self._whole, np.unique(plan).tolist(),
                classes=config.pool_classes, images=config.pool_images,
            )  # fmt: skip
            pool = torch.from_numpy(numbers)
        tasks = draw_streams(rng, config, plan, sources, self.batch_size)
        tasks = [task.map(lambda t: t[lo:hi]) for task in tasks]
        if pool is None:
            drawn = [i.flatten() for t in tasks for i in (t.demos, t.queries, t.one_shot) if i is not None]
            pool = found = torch.unique(torch.cat(drawn))
            tasks = [task.renumber(lambda images: torch.searchsorted(found, images)) for task in tasks]
        return Stream(
            step=step,
            pool=pool,
            pool_classes=torch.searchsorted(self._class_starts, pool, right=True) - 1,
            tasks=tuple(tasks),
            n_outputs=config.n_outputs,
            scenario=config.scenario,
        )

    def images(
        self,
        batch: Stream,
        *,
        channels: int | None = None,
        augment: Sequence[Augmentation | None] | None = None,
        standardise: Standardise = "set",
    ) -> torch.Tensor:
        """Network input for every image (or vector) of the batch's pool.

        Args:
            batch: from this sampler.
            channels: default: as many as the set with the most has; one-channel sets are repeated.
            augment: one for each set; changes its pixels, scaled to [0, 1]. Seeded by (seed, step), image
                after image of the pool: all parts of a step agree when they have the same pool, that is with
                pooled drawing.
            standardise: see `ImageSet.take`.

        Returns:
            float32 [U, C, H, W]; vectors, to which the options do not apply, as images of one pixel with F
            channels, [U, F, 1, 1].
        """
        # The third word keeps this generator apart from the one that draws the streams.
        seed = np.random.SeedSequence((self.seed, batch.step, 1)).generate_state(1, np.uint64)
        generator = torch.Generator().manual_seed(int(seed[0]))
        most = max((s.images.shape[1] for s in self.sets if isinstance(s, ImageSet)), default=0)
        number = np.searchsorted(self._offsets, batch.pool.numpy(), side="right") - 1
        bounds = np.searchsorted(number, np.arange(len(self.sets) + 1)).tolist()
        parts = []
        for i, (inputs, (a, b)) in enumerate(zip(self.sets, pairwise(bounds), strict=True)):
            if a == b:
                continue
            rows = batch.pool[a:b] - int(self._offsets[i])
            if isinstance(inputs, ImageSet):
                x = inputs.take(
                    rows, channels=channels or most, augment=augment[i] if augment else None,
                    generator=generator, standardise=standardise,
                )  # fmt: skip
            else:
                x = inputs.take(rows)[..., None, None]
            parts.append(x)
        return parts[0] if len(parts) == 1 else torch.cat(parts)


def check_sets(sets: Sequence[LabelledSet], config: StreamConfig | RandomStreamConfig) -> None:
    """Refuse sets that cannot serve every stream of this configuration."""
    config.check_number(len(sets))
    shapes = {f"{s.name}/{s.split}": _shape(s) for s in sets}
    if len(set(shapes.values())) > 1:
        listed = ", ".join(f"{name} {'×'.join(map(str, shape))}" for name, shape in shapes.items())
        raise InputError(f"the inputs of one batch must have one size, got {listed}: load them with one size")
    classes, images = config.classes_per_set(len(sets)), config.images_per_class
    why = f"{classes} classes of one set and {images} images of a class"
    if config.drawing == "pooled":
        if config.pool_classes < classes:
            raise InputError(
                f"pool_classes={config.pool_classes} is too few: a stream may need {why}; raise pool_classes "
                "or lower tasks or ways"
            )
        classes, images = config.pool_classes, config.pool_images
        why = f"a pool of {classes} classes with {images} images each"
    for s in sets:
        smallest = int(np.argmin(s.counts)) if s.n_classes else 0
        if s.n_classes < classes:
            raise InputError(f"set {s.name}/{s.split} has {s.n_classes} classes, but streams need {why}")
        if s.counts[smallest] < images:
            raise InputError(
                f"set {s.name}/{s.split} has {s.counts[smallest]} images of class "
                f"{s.classes[smallest]!r}, but streams need {why}"
            )


def _shape(inputs: LabelledSet) -> tuple[int, ...]:
    """Height and width of images (channels may differ), or the length of vectors."""
    return inputs.shape[1:] if isinstance(inputs, ImageSet) else inputs.shape
